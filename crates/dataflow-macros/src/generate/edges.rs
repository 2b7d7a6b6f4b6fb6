//! `inputs` and `successors`.

use super::analysed::Analysed;
use super::formula::{Mentioned, spelled};
use crate::parse::Statement;
use dataflow_affine::{Affine, Input, Output, System, Var, chain, excludes, said};
use proc_macro2::{Delimiter, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::{FnArg, Result};

impl Analysed<'_> {
    pub(super) fn inputs(&self) -> Result<TokenStream> {
        let (root, site) = (&self.space.root, self.space.site);
        let mut arms = Vec::new();
        for (number, statement, _) in self.statements() {
            let mut body = TokenStream::new();
            for at in 0..statement.accesses.len() {
                body.extend(self.input(number, at)?);
            }
            let pattern = self.pattern(statement, &body);
            arms.push(quote_spanned!(site=> #pattern => { #body }));
        }
        let (from, body) = self.edges(arms, "inputs", "from");
        let attributes = self.attributes("inputs");
        Ok(quote_spanned! {site=>
            #attributes
            fn inputs(&self, task: Self::Task, #from: &mut impl #root::space::Inputs<Self>) { #body }
        })
    }

    /// What the user wrote at a function that is completed; it is inlined, unless he says how.
    fn attributes(&self, function: &str) -> TokenStream {
        let written = self.written(function).map(|function| &function.attrs[..]);
        let written = written.unwrap_or_default();
        let inline = quote_spanned!(self.space.site=> #[inline(always)]);
        let own = written.iter().all(|a| !a.path().is_ident("inline"));
        let own = own.then_some(inline);
        quote_spanned!(self.space.site=> #(#written)* #own)
    }

    /// What is derived, and what the user adds; before it the name of the visitor, `_` in a space without
    /// such edges, whose user is not to be warned of a name that he did not write.
    fn edges(&self, arms: Vec<TokenStream>, function: &str, visitor: &str) -> (Ident, TokenStream) {
        let site = self.space.site;
        let derived = quote_spanned!(site=> #[allow(unused_variables)] match task { #(#arms)* });
        let added = self.written(function).map(|function| {
            let patterns = function.sig.inputs.iter().filter_map(|input| match input {
                FnArg::Typed(argument) => Some(argument.pat.to_token_stream()),
                FnArg::Receiver(_) => None,
            });
            let given = patterns.zip(["task", visitor].map(|name| Ident::new(name, site)));
            let renamed = given.filter(|(pattern, name)| *name != pattern.to_string());
            let (patterns, names): (Vec<_>, Vec<_>) = renamed.unzip();
            let statements = &function.block.stmts;
            quote_spanned!(site=> #(let #patterns = #names;)* #(#statements)*)
        });
        let body = quote_spanned!(site=> #derived #added);
        let lets = self.lets(&body);
        let named = Ident::new(visitor, site);
        let visitor = match Mentioned::of(&body).has(&named) {
            true => named,
            false => Ident::new("_", site),
        };
        (visitor, quote_spanned!(site=> #lets #body))
    }

    /// The alternatives of one access, as a person asks for them.
    fn input(&self, number: usize, at: usize) -> Result<TokenStream> {
        let site = self.space.site;
        let statement = &self.lowered.program.statements()[number];
        let alternatives = &self.derived.tasks[number].inputs[at];
        let stored = self.family(number, at).home.is_some();
        let says = |input: &Input| input.source.is_some() || stored;
        let links: Vec<_> = match alternatives.iter().all(says) {
            true => self.exact(chain(alternatives, statement))?,
            false => {
                let mut links = Vec::new();
                for input in alternatives.iter().filter(|input| says(input)) {
                    links.push((self.exact(said(&input.guard, &statement.base))?, input));
                }
                links
            }
        };
        let mut tokens = TokenStream::new();
        let n_links = links.len();
        for (place, (said, input)) in links.into_iter().enumerate() {
            let action = self.source(number, at, input);
            let link = match self.guard(&said, &|var| self.name(var)) {
                Some(guard) => {
                    let block = block(action, site);
                    quote_spanned!(site=> if #guard #block)
                }
                None if n_links == 1 => action,
                None => block(action, site),
            };
            tokens = match place {
                0 => link,
                _ => quote_spanned!(site=> #tokens else #link),
            };
        }
        Ok(tokens)
    }

    fn source(&self, number: usize, at: usize, input: &Input) -> TokenStream {
        let site = self.space.site;
        let flow = Literal::usize_unsuffixed(self.flow(number, at));
        match &input.source {
            Some(source) => {
                let its = self.flow(source.statement, source.access);
                let its = Literal::usize_unsuffixed(its);
                let task = self.task(source.statement, &source.iteration, &|var| self.name(var));
                quote_spanned!(site=> from.task(#flow, #task, #its);)
            }
            None => self.home(number, at, format_ident!("from", span = site)),
        }
    }

    /// `from.home(…)` or `to.home(…)` of an access.
    fn home(&self, number: usize, at: usize, visitor: Ident) -> TokenStream {
        let site = self.space.site;
        let flow = Literal::usize_unsuffixed(self.flow(number, at));
        let family = self.family(number, at);
        let Some((store, slot)) = &family.home else {
            return TokenStream::new();
        };
        let access = &self.lowered.program.statements()[number].accesses[at];
        let call = quote_spanned!(site=> #visitor.home(#flow, &#store, (#slot) as usize););
        self.of_datum(family, &access.subscripts, call)
    }

    /// `Task::Gemm { m, n: m, k }`.
    fn task(
        &self,
        statement: usize,
        iteration: &[Affine],
        name: &dyn Fn(Var) -> Ident,
    ) -> TokenStream {
        let site = self.space.site;
        let derived = &self.lowered.program.statements()[statement];
        let written: &Statement = self.lowered.statements[statement];
        let fields = written
            .parameters
            .iter()
            .zip(&derived.shown)
            .map(|(field, &at)| {
                let value = self.affine(&iteration[at], name);
                match *field == value.to_string() {
                    true => quote_spanned!(site=> #value),
                    false => quote_spanned!(site=> #field: #value),
                }
            });
        let (task, class) = (&self.space.task, &written.name);
        quote_spanned!(site=> #task::#class { #(#fields),* })
    }

    pub(super) fn successors(&self) -> Result<TokenStream> {
        let (root, site) = (&self.space.root, self.space.site);
        let mut arms = Vec::new();
        for (number, statement, _) in self.statements() {
            let mut body = TokenStream::new();
            for at in 0..statement.accesses.len() {
                body.extend(self.output(number, at)?);
            }
            let pattern = self.pattern(statement, &body);
            arms.push(quote_spanned!(site=> #pattern => { #body }));
        }
        let (to, body) = self.edges(arms, "successors", "to");
        let attributes = self.attributes("successors");
        Ok(quote_spanned! {site=>
            #attributes
            fn successors(&self, task: Self::Task, #to: &mut impl #root::space::Successors<Self>) { #body }
        })
    }

    /// Where one access goes: guards that exclude each other become `if` and `else`.
    fn output(&self, number: usize, at: usize) -> Result<TokenStream> {
        let site = self.space.site;
        let statement = &self.lowered.program.statements()[number];
        let tasks = &self.derived.tasks[number];
        let targets = tasks.outputs[at].iter();
        let targets = targets.map(|output| (&output.guard, self.target(number, at, output)));
        let homes = tasks.homes[at].iter().map(|guard| {
            let home = self.home(number, at, format_ident!("to", span = site));
            (guard, home)
        });
        let mut actions: Vec<(&System, TokenStream)> = Vec::new();
        for (guard, action) in targets.chain(homes) {
            match actions.iter_mut().find(|(own, _)| *own == guard) {
                Some((_, own)) => own.extend(action),
                None => actions.push((guard, action)),
            }
        }
        let mut tokens = TokenStream::new();
        let mut place = 0;
        while place < actions.len() {
            let (guard, action) = &actions[place];
            let said = self.exact(said(guard, &statement.base))?;
            place += 1;
            let Some(asked) = self.guard(&said, &|var| self.name(var)) else {
                tokens.extend(action.clone());
                continue;
            };
            let block = self::block(action.clone(), site);
            tokens.extend(quote_spanned!(site=> if #asked #block));
            if let Some((next, otherwise)) = actions.get(place)
                && self.exact(excludes(statement, guard, next))?
            {
                let block = self::block(otherwise.clone(), site);
                tokens.extend(quote_spanned!(site=> else #block));
                place += 1;
            }
        }
        Ok(tokens)
    }

    fn target(&self, number: usize, at: usize, output: &Output) -> TokenStream {
        let site = self.space.site;
        let program = &self.lowered.program;
        let names = program.range_names(&program.statements()[number], output);
        let name = |var| match output.ranges.iter().position(|range| range.var == var) {
            Some(range) => spelled(&names[range], site),
            None => self.name(var),
        };
        let its = self.flow(output.statement, output.access);
        let flow = self.flow(number, at);
        let [flow, its] = [flow, its].map(Literal::usize_unsuffixed);
        let task = self.task(output.statement, &output.iteration, &name);
        let Some((last, outer)) = output.ranges.split_last() else {
            return quote_spanned!(site=> to.task(#flow, #task, #its););
        };
        let (range, var) = (self.range(last, &name), name(last.var));
        let inner = quote_spanned!(site=> to.range(#flow, #range, |#var| #task, #its););
        outer.iter().rev().fold(inner, |inner, each| {
            let (range, var) = (self.range(each, &name), name(each.var));
            quote_spanned!(site=> for #var in #range { #inner })
        })
    }
}

/// Statements in braces, if they are not already.
fn block(statements: TokenStream, site: Span) -> TokenStream {
    let mut parts = statements.clone().into_iter();
    match (parts.next(), parts.next()) {
        (Some(TokenTree::Group(group)), None) if group.delimiter() == Delimiter::Brace => {
            statements
        }
        _ => quote_spanned!(site=> { #statements }),
    }
}
