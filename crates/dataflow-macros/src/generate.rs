//! The Rust that a derived space stands for: the enum of its tasks, and an `impl TaskSpace`.

mod analysed;
mod edges;
mod formula;
mod places;
mod tasks;

use crate::lower::{Lowered, plain};
use crate::parse::{Access, Item, Space, Statement};
use analysed::Analysed;
use dataflow_affine::{Derived, Mode};
use formula::used;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::{Error, FnArg, ImplItemFn, Result, Type};

pub fn generate(space: &Space, lowered: &Lowered<'_>, derived: &Derived) -> Result<TokenStream> {
    let analysed = Analysed {
        space,
        lowered,
        derived,
    };
    analysed.expect_subscripts()?;
    let names = analysed.names();
    let implementation = analysed.implementation()?;
    Ok([names, implementation].into_iter().collect())
}

/// The names of a space that is refused, and a trait that says nothing: whoever uses them hears no more
/// of it than what is wrong.
pub fn hollow(space: &Space) -> TokenStream {
    let Space {
        root,
        visibility,
        task,
        site,
        generics,
        of,
        datum,
        ..
    } = space;
    let classes = hollow_classes(space);
    let (start, _, end) = generics.split_for_impl();
    quote_spanned! {*site=>
        #root::task_names! { #visibility enum #task { #(#classes),* } }
        #[allow(dead_code)]
        impl #task {
            #visibility const fn formulas() -> &'static str { "" }
            #visibility const fn relations() -> &'static str { "" }
        }
        #[allow(unused_variables)]
        impl #start #root::space::TaskSpace for #of #end {
            type Task = #task;
            type Datum = #datum;
            fn describe(&self, about: &mut #root::space::Description) {}
            fn tasks(
                &self,
                on: #root::rank::Rank,
            ) -> impl ::core::iter::Iterator<Item = Self::Task> + ::core::marker::Send {
                ::core::iter::empty()
            }
            fn inputs(&self, task: Self::Task, from: &mut impl #root::space::Inputs<Self>) {}
            fn successors(&self, task: Self::Task, to: &mut impl #root::space::Successors<Self>) {}
            fn run(
                &self,
                task: Self::Task,
                flows: &mut #root::space::Flows<'_, Self::Datum>,
            ) -> ::core::result::Result<(), #root::error::TaskError> {
                ::core::result::Result::Ok(())
            }
        }
    }
}

/// The classes of its tasks. Names that are written twice are told already.
fn hollow_classes(space: &Space) -> Vec<TokenStream> {
    let (mut written, mut known) = (Vec::new(), Vec::new());
    statements(&space.items, &mut written);
    let mut classes = Vec::new();
    for statement in written {
        let (name, parameters) = (&statement.name, &statement.parameters);
        if known.contains(&name) {
            continue;
        }
        known.push(name);
        let is_first = |at: &usize| !parameters[..*at].contains(&parameters[*at]);
        let once = (0..parameters.len()).filter(is_first);
        let once = once.map(|at| &parameters[at]);
        classes.push(quote_spanned!(space.site=> #name { #(#once),* }));
    }
    if classes.is_empty() {
        classes.push(quote_spanned!(space.site=> Unread {}));
    }
    classes
}

/// All statements, in the order of the text.
fn statements<'s>(items: &'s [Item], found: &mut Vec<&'s Statement>) {
    for item in items {
        match item {
            Item::For(each) => statements(&each.body, found),
            Item::If(parts) => {
                statements(&parts.then, found);
                statements(&parts.otherwise, found);
            }
            Item::Task(statement) => found.push(statement),
        }
    }
}

/// The last name in the path of a type, or of the type behind a reference.
fn last_name(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => path.path.segments.last().map(|last| plain(&last.ident)),
        Type::Reference(reference) => last_name(&reference.elem),
        _ => None,
    }
}

/// `TileCholesky` as `tile_cholesky`, and `LU2D` as `lu2d`.
fn in_lower_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut lower = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let is_before_small = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        let begins = match before {
            Some(before) if letter.is_uppercase() => before.is_lowercase() || is_before_small,
            _ => false,
        };
        if begins && !lower.ends_with('_') {
            lower.push('_');
        }
        lower.extend(letter.to_lowercase());
    }
    lower
}

/// What the user may write, to which the macro adds what is derived.
const ADDED_TO: [&str; 3] = ["describe", "inputs", "successors"];

/// What the user may write instead of the macro.
const INSTEAD: [&str; 7] = [
    "rank", "owner", "priority", "tasks", "roots", "count", "index",
];

impl Analysed<'_> {
    /// Store, slot and rank of data follow from subscripts: a variable of a loop is no name there, though
    /// the function that asks for them may have one.
    fn expect_subscripts(&self) -> Result<()> {
        for (number, statement, _) in self.statements() {
            for at in 0..statement.accesses.len() {
                let family = self.family(number, at);
                let is_subscript = |name: &&Ident| family.subscripts.contains(name);
                for name in statement
                    .parameters
                    .iter()
                    .filter(|name| !is_subscript(name))
                {
                    let mut parts = family.place().into_iter();
                    if let Some(used) = parts.find_map(|part| used(&part, name)) {
                        let text = format!(
                            "`{name}` is no subscript of `{}`: its place is said by subscripts, parameters \
                             of the space and `self`",
                            family.name
                        );
                        return Err(Error::new(used.span(), text));
                    }
                }
            }
        }
        Ok(())
    }

    /// The enum of the tasks, with the formulas in its documentation.
    fn names(&self) -> TokenStream {
        let Space {
            root,
            attributes,
            visibility,
            task,
            site,
            ..
        } = self.space;
        let classes = self.statements().map(|(_, statement, _)| {
            let (name, parameters) = (&statement.name, &statement.parameters);
            quote_spanned!(*site=> #name { #(#parameters),* })
        });
        let text = self.derived.text(&self.lowered.program);
        let relations = self.derived.relations(&self.lowered.program);
        let doc =
            format!("\n# Formulas\nWhere data come from, and where they go:\n```text\n{text}```");
        quote_spanned! {*site=>
            #root::task_names! {
                #(#attributes)*
                #[doc = #doc]
                #visibility enum #task { #(#classes),* }
            }

            #[allow(dead_code)]
            impl #task {
                /// The formulas of the space: where the data of each task come from (`<-`), and where
                /// they go (`->`).
                #visibility const fn formulas() -> &'static str {
                    #text
                }

                /// The same as relations, a line for each family of edges.
                #visibility const fn relations() -> &'static str {
                    #relations
                }
            }
        }
    }

    fn implementation(&self) -> Result<TokenStream> {
        let Space {
            root,
            impl_attributes,
            task,
            site,
            generics,
            of,
            datum,
            functions,
            ..
        } = self.space;
        self.expect_known()?;
        self.expect_plain()?;
        let parts = self.parts()?;
        let is_added = |name: &Ident| ADDED_TO.iter().any(|known| name == known);
        let verbatim = functions
            .iter()
            .filter(|function| !is_added(&function.sig.ident));
        let (start, _, end) = generics.split_for_impl();
        let carries = self.carries();
        Ok(quote_spanned! {*site=>
            #(#impl_attributes)*
            #[allow(trivial_numeric_casts, clippy::unnecessary_cast, clippy::useless_conversion)]
            #[allow(clippy::needless_borrow, clippy::int_plus_one, clippy::unnecessary_min_or_max, clippy::if_same_then_else)]
            impl #start #root::space::TaskSpace for #of #end {
                type Task = #task;
                type Datum = #datum;
                #carries
                #(#parts)*
                #(#verbatim)*
            }
        })
    }

    /// The functions that are made: those that every space has, and of the others those that are not written.
    fn parts(&self) -> Result<Vec<TokenStream>> {
        let functions = &self.space.functions;
        let given = |name: &str| functions.iter().any(|function| function.sig.ident == name);
        let mut parts = vec![
            self.describe()?,
            self.inputs()?,
            self.successors()?,
            self.run()?,
        ];
        let mut derive = |name: &str, make: &dyn Fn() -> Result<TokenStream>| -> Result<()> {
            if !given(name) {
                parts.push(make()?);
            }
            Ok(())
        };
        derive("tasks", &|| self.tasks())?;
        derive("rank", &|| self.rank())?;
        derive("owner", &|| self.owner())?;
        derive("priority", &|| self.priority())?;
        derive("roots", &|| self.roots())?;
        derive("count", &|| self.count())?;
        derive("index", &|| self.index())?;
        Ok(parts)
    }

    /// Whether edges carry data is said where a body names one: it gets it whatever its size.
    fn carries(&self) -> Option<TokenStream> {
        let lends = |(number, statement, _): (usize, &Statement, _)| {
            (0..statement.accesses.len()).any(|at| self.lent(number, at).is_some())
        };
        let site = self.space.site;
        let lends = self.statements().any(lends);
        lends.then(|| quote_spanned!(site=> const CARRIES: bool = true;))
    }

    /// What a body calls the datum that it gets by an access, if it gets one.
    fn lent(&self, number: usize, at: usize) -> Option<&Ident> {
        let name = self.lowered.statements[number].accesses[at].name.as_ref();
        name.filter(|_| !self.family(number, at).is_order)
    }

    /// All functions that are written are those that may be.
    fn expect_known(&self) -> Result<()> {
        for function in &self.space.functions {
            let name = &function.sig.ident;
            if !ADDED_TO.iter().chain(&INSTEAD).any(|known| name == known) {
                let text = format!(
                    "`{name}` is not written here: the macro makes it, or it belongs into an `impl` of the \
                     type's own (here may stand {})",
                    [&ADDED_TO[..], &INSTEAD].concat().join(", ")
                );
                return Err(Error::new(name.span(), text));
            }
        }
        Ok(())
    }

    /// The functions to which is added are written without generics, for their heads are the macro's.
    fn expect_plain(&self) -> Result<()> {
        for function in ADDED_TO.iter().filter_map(|name| self.written(name)) {
            let generics = &function.sig.generics;
            let condition = generics.where_clause.as_ref();
            let written = (!generics.params.is_empty()).then(|| generics.to_token_stream());
            if let Some(at) = written.or(condition.map(ToTokens::to_token_stream)) {
                let text = format!(
                    "`{}` is completed by the macro and has no generics of its own: write `impl …` at its \
                     argument, as the trait does",
                    function.sig.ident
                );
                return Err(Error::new_spanned(at, text));
            }
        }
        Ok(())
    }

    /// The classes and their flows; then the user's description, or name and parameters.
    fn describe(&self) -> Result<TokenStream> {
        let (root, site) = (&self.space.root, self.space.site);
        let written = self.written("describe");
        let about = Ident::new("about", site);
        let rest = match written {
            Some(function) => self.as_written(function, &about),
            None => self.name_and_parameters(&about),
        };
        let classes = self.statements().map(|(number, statement, _)| {
            let name = plain(&statement.name);
            let flows = self.flows(number).into_iter();
            let flows = flows.map(|at| self.described_flow(number, &statement.accesses[at], at));
            quote_spanned!(site=> #[allow(unused_results)] #about.class(#name) #(#flows)*;)
        });
        let ranks = self.ranks()?;
        let ranks = ranks
            .iter()
            .map(|n_ranks| quote_spanned!(site=> #[allow(unused_results)] #about.ranks(#n_ranks);));
        // What is written stands last, as a function's end: it may have no `;` there, and return earlier.
        let body = quote_spanned!(site=> #(#classes)* #(#ranks)* #rest);
        let lets = self.lets(&body);
        let attributes = written.map(|function| &function.attrs[..]);
        let attributes = attributes.unwrap_or_default();
        Ok(quote_spanned! {site=>
            #(#attributes)*
            fn describe(&self, #about: &mut #root::space::Description) {
                #lets
                #body
            }
        })
    }

    /// The statements of a function that is completed; its last argument is `about`.
    fn as_written(&self, function: &ImplItemFn, about: &Ident) -> TokenStream {
        let site = self.space.site;
        let (statements, argument) = (&function.block.stmts, function.sig.inputs.last());
        let called = argument.and_then(|argument| match argument {
            FnArg::Typed(argument) => Some(&argument.pat),
            FnArg::Receiver(_) => None,
        });
        // Below, where it hides a parameter of this name, as it does in what is written.
        let called = called.filter(|pattern| about != &pattern.to_token_stream().to_string());
        let called = called.map(|pattern| quote_spanned!(site=> let #pattern = #about;));
        quote_spanned!(site=> #called #(#statements)*)
    }

    fn name_and_parameters(&self, about: &Ident) -> TokenStream {
        let (site, name) = (self.space.site, self.space_name());
        let parameters = self.space.parameters.iter().map(|parameter| {
            let (name, value) = (plain(&parameter.name), &parameter.name);
            quote_spanned!(site=> #[allow(unused_results)] #about.parameter(#name, #value);)
        });
        quote_spanned!(site=> #[allow(unused_results)] #about.name(#name); #(#parameters)*)
    }

    /// The call that describes the flow of an access.
    fn described_flow(&self, number: usize, access: &Access, at: usize) -> TokenStream {
        let (site, family) = (self.space.site, self.family(number, at));
        let method = match access.mode.to_string().as_str() {
            _ if family.is_order => "order",
            "read" | "give" => "read",
            "optional" if family.home.is_some() => "read",
            "optional" => "optional",
            "update" => "update",
            _ => "new_flow",
        };
        let method = Ident::new(method, site);
        let flow = self.lowered.program.access(number, at);
        let flow = flow.trim_start_matches('_');
        let kind = family.kind.as_ref();
        let kind = kind.map(|kind| quote_spanned!(site=> .of(#kind)));
        quote_spanned!(site=> .#method(#flow) #kind)
    }

    /// The name of the type in lower case, with underscores.
    fn space_name(&self) -> String {
        in_lower_case(&last_name(&self.space.of).unwrap_or_default())
    }

    /// Gives the data that a body names their names.
    fn lends(&self, number: usize, derived: &dataflow_affine::Statement) -> TokenStream {
        let (site, flows) = (self.space.site, self.flows(number));
        let name = |at: usize| self.lent(number, at);
        let named = flows.iter().any(|&at| name(at).is_some());
        let nothing = Ident::new("_", site);
        let slots = flows.iter().map(|&at| name(at).unwrap_or(&nothing));
        let slots = named.then(|| quote_spanned!(site=> let [#(#slots),*] = flows.slots();));
        let taken = flows.iter().filter_map(|&at| {
            let name = name(at)?;
            let method = match derived.accesses[at].mode {
                Mode::Read | Mode::Give => format_ident!("read", span = site),
                Mode::Optional => format_ident!("get", span = site),
                Mode::Update => format_ident!("update", span = site),
                Mode::New => return None,
            };
            Some(quote_spanned!(site=> let #name = #name.#method();))
        });
        quote_spanned!(site=> #slots #(#taken)*)
    }

    fn run(&self) -> Result<TokenStream> {
        let (root, site) = (&self.space.root, self.space.site);
        let arms = self.statements().map(|(number, statement, derived)| {
            let (lent, body) = (self.lends(number, derived), &statement.body);
            let body = quote_spanned!(site=> #lent #body);
            let pattern = self.pattern(statement, &body);
            quote_spanned!(site=> #pattern => { #body })
        });
        let arms: Vec<TokenStream> = arms.collect();
        let lets = self.lets(&arms.iter().cloned().collect());
        let allow = quote_spanned!(site=> #[allow(unused_variables, clippy::unused_unit, clippy::needless_return)]);
        Ok(quote_spanned! {site=>
            #allow
            #[inline]
            fn run(
                &self,
                task: Self::Task,
                flows: &mut #root::space::Flows<'_, Self::Datum>,
            ) -> ::core::result::Result<(), #root::error::TaskError> {
                #lets
                match task { #(#arms)* }
                #[allow(unreachable_code)] // if each body returns an error
                return ::core::result::Result::Ok(());
            }
        })
    }
}
