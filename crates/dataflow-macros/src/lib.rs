//! The macro `task_space!`: a task space from the loop nest of a textbook.
//!
//! Use it through `dataflow::task_space!` or `dataflow_core::task_space!`, where it is documented. A
//! file per step: what is written (`parse`), as a program of `dataflow-affine` (`lower`), what is
//! wrong with it (`fault`), and the Rust that it stands for (`generate`).

mod fault;
mod generate;
mod lower;
mod parse;
mod put;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// The root of `dataflow-core`, then what `task_space!` was given.
#[proc_macro]
pub fn task_space(input: TokenStream) -> TokenStream {
    let expanded = syn::parse(input).map(|space: parse::Space| {
        expand(&space).unwrap_or_else(|fault| {
            let fault = fault.into_compile_error();
            [fault, generate::hollow(&space)].into_iter().collect()
        })
    });
    expanded
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

fn expand(space: &parse::Space) -> syn::Result<proc_macro2::TokenStream> {
    if let Some(fault) = &space.fault {
        return Err(fault.clone());
    }
    let lowered = lower::lower(space)?;
    let derived = match lowered.by_lines {
        true => dataflow_affine::relate(&lowered.program, &lowered.relations),
        false => dataflow_affine::derive_with(&lowered.program, &lowered.relations),
    };
    match derived {
        Ok(derived) => generate::generate(space, &lowered, &derived),
        Err(faults) => Err(fault::report(space, &lowered, &faults)),
    }
}
