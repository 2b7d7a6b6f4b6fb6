//! Which tasks there are, and on which rank: `tasks`, `roots`, `count` and `rank`.

use super::analysed::Analysed;
use super::formula::Mentioned;
use crate::fault;
use crate::parse::{Placement, Statement};
use dataflow_affine::{Affine, Part, Polynomial, Range, System, count, enumerated, said};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{Error, Result};

/// A statement's tasks as they are dealt out to ranks, a direction of the grid after the other: the
/// value that is dealt, the place in that direction of the rank that is asked for, and how many
/// places there are.
type Dealt = Vec<(Affine, TokenStream, TokenStream)>;

/// The loops over the tasks of a part: one arm of a `match` each, and the arm that names the task.
struct NestArms {
    ranges: Vec<TokenStream>,
    task: TokenStream,
    /// How many of the innermost loops run the same whatever the values of each other.
    even: usize,
    others: bool,
}

/// Whether an expression of a statement's variables may be negative for some task; parameters and variables
/// are not.
fn may_be_negative(e: &Affine, statement: &dataflow_affine::Statement) -> bool {
    let subtracts = e.constant() < 0 || e.terms().iter().any(|term| term.1 < 0);
    let below = || -e.clone() - 1;
    let mut pieces = statement.pieces.iter();
    subtracts && pieces.any(|piece| piece.with([below()]).is_empty() != Ok(true))
}

/// How many of the innermost loops, of one at least, run the same whatever the values of each other.
fn even(values: &[TokenStream], names: &[Ident]) -> usize {
    let mentioned: Vec<_> = values.iter().map(Mentioned::of).collect();
    let is_even = |from: &usize| {
        let inner = &mentioned[from + 1..];
        let outer = names[*from..].iter();
        inner
            .iter()
            .all(|range| outer.clone().all(|name| !range.has(name)))
    };
    let from = (0..values.len()).find(is_even).unwrap_or(values.len() - 1);
    values.len() - from
}

/// A name of the macro's own: it neither hides one of the user's nor is hidden by it.
fn own(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// The values of all loops of a nest.
fn indices() -> Ident {
    own("at")
}

impl Analysed<'_> {
    pub(super) fn tasks(&self) -> Result<TokenStream> {
        let nests = self.nests(|_| vec![System::default()])?;
        Ok(self.listing("tasks", self.walk(&nests)))
    }

    pub(super) fn roots(&self) -> Result<TokenStream> {
        let nests = self.nests(|statement| self.derived.tasks[statement].roots.clone())?;
        let (root, site, all) = (&self.space.root, self.space.site, self.walk(&nests));
        let all = match self.written("inputs") {
            None => all,
            // The user's own edges decide what is left.
            Some(_) => {
                quote_spanned!(site=> #all.filter(move |&task| #root::space::is_root(self, task)))
            }
        };
        Ok(self.listing("roots", all))
    }

    /// The function that lists tasks of one rank.
    fn listing(&self, function: &str, all: TokenStream) -> TokenStream {
        let (root, site) = (&self.space.root, self.space.site);
        let function = syn::Ident::new(function, site);
        let lets = self.lets(&all);
        quote_spanned! {site=>
            #[allow(unused_variables)]
            fn #function(
                &self,
                on: #root::rank::Rank,
            ) -> impl ::core::iter::Iterator<Item = Self::Task> + ::core::marker::Send {
                #lets
                #all
            }
        }
    }

    /// A nest of loops for each part of all statements under guards.
    fn nests(&self, guards: impl Fn(usize) -> Vec<System>) -> Result<Vec<NestArms>> {
        let mut all = Vec::new();
        for (number, statement, derived) in self.statements() {
            let dealt = self.dealt(number)?;
            for guard in guards(number) {
                let parts = enumerated(&self.lowered.program, derived, &guard);
                let parts =
                    parts.map_err(|e| fault::fractions(self.lowered, &statement.name, &e))?;
                for part in parts {
                    all.push(self.nest(all.len(), statement, &part, dealt.as_ref())?);
                }
            }
        }
        Ok(all)
    }

    /// The loops of a part. Those whose variable is what is dealt out take its steps.
    fn nest(
        &self,
        nest: usize,
        statement: &Statement,
        part: &Part,
        dealt: Option<&Dealt>,
    ) -> Result<NestArms> {
        let (root, site) = (&self.space.root, self.space.site);
        let name = |var| self.name(var);
        let mut open: Vec<_> = dealt.into_iter().flatten().collect();
        let mut step = |range: &Range| {
            let values = self.range(range, &name);
            let same = |(e, ..): &&(Affine, _, _)| *e == Affine::from(range.var);
            match open.iter().position(same).map(|at| open.remove(at)) {
                Some((_, place, places)) => {
                    quote_spanned!(site=> #root::space::dealt(#values, #place, #places))
                }
                None => quote_spanned!(site=> (#values).into()),
            }
        };
        let mut values: Vec<_> = part.ranges.iter().map(&mut step).collect();
        if values.is_empty() {
            values.push(quote_spanned!(site=> (0..1).into()));
        }
        let said = self.exact(said(&part.guard, &System::default()))?;
        if let Some(guard) = self.guard(&said, &name) {
            let outermost = &values[0];
            values[0] = quote_spanned!(site=> if #guard { #outermost } else { (0..0).into() });
        }
        let nest = Literal::usize_unsuffixed(nest);
        let range = |(level, values): (usize, &TokenStream)| {
            let (bound, level) = (
                self.bound_in(part, values),
                Literal::usize_unsuffixed(level),
            );
            quote_spanned!(site=> (#nest, #level) => { #bound #values })
        };
        let others = self.has_ranks() && (dealt.is_none() || !open.is_empty());
        let (task, class, fields) = (&self.space.task, &statement.name, &statement.parameters);
        let one = quote_spanned!(site=> #task::#class { #(#fields),* });
        let bound = self.bound_in(part, &one);
        let names = part.ranges.iter().map(|range| name(range.var));
        Ok(NestArms {
            even: even(&values, &names.collect::<Vec<_>>()),
            ranges: values.iter().enumerate().map(range).collect(),
            task: quote_spanned!(site=> #nest => { #bound #one }),
            others,
        })
    }

    /// `let k = at[0];` for the variables of a part that are used.
    fn bound_in(&self, part: &Part, body: &TokenStream) -> TokenStream {
        let (site, mentioned) = (self.space.site, Mentioned::of(body));
        let vars = part.ranges.iter().map(|range| self.name(range.var));
        let used = vars.enumerate().filter(|(_, name)| mentioned.has(name));
        used.map(|(at, name)| {
            let at = Literal::usize_unsuffixed(at);
            let place = indices();
            quote_spanned!(site=> let #name = #place[#at];)
        })
        .collect()
    }

    /// The tasks of these nests, one after the other. Without ranks they are all on rank 0.
    fn walk(&self, nests: &[NestArms]) -> TokenStream {
        let (root, site) = (&self.space.root, self.space.site);
        let loops = nests.iter().map(|nest| nest.ranges.len());
        let depth = Literal::usize_unsuffixed(loops.clone().max().unwrap_or(1));
        let loops = loops.map(Literal::usize_unsuffixed);
        let even = nests
            .iter()
            .map(|nest| Literal::usize_unsuffixed(nest.even));
        let others = nests.iter().map(|nest| nest.others);
        let ranges = nests.iter().flat_map(|nest| &nest.ranges);
        let tasks = nests.iter().map(|nest| &nest.task);
        let all = quote_spanned! {site=>
            const { &[#(#root::space::Nest { loops: #loops, even: #even, others: #others }),*] }
        };
        let all = match self.has_ranks() {
            true => all,
            false => quote_spanned!(site=> if on == #root::rank::Rank(0) { #all } else { &[] }),
        };
        let (nest, level, at) = (own("nest"), own("level"), indices());
        let task = &self.space.task;
        let walk = quote_spanned! {site=>
            #root::space::walk(
                #all,
                move |#nest, #level, #at: &[u32; #depth]| -> #root::space::Steps {
                    match (#nest, #level) { #(#ranges)* _ => (0..0).into() }
                },
                move |#nest, #at: &[u32; #depth]| -> #task {
                    match #nest { #(#tasks)* _ => ::core::unreachable!() }
                },
            )
        };
        let walk = match self.depends_on_numbers() {
            true => self.apart(&walk, &depth),
            false => walk,
        };
        match nests.iter().any(|nest| nest.others) {
            true => quote_spanned! {site=>
                #root::space::asked(#walk, move |task| #root::space::TaskSpace::rank(self, task) == on)
            },
            false => walk,
        }
    }

    /// Whether what loops run over can be said without the space, by its parameters alone.
    fn depends_on_numbers(&self) -> bool {
        let parameters: Vec<_> = self.space.parameters.iter().map(|p| &p.name).collect();
        let is_number = |e: &syn::Expr| Mentioned::of(&e.to_token_stream()).are_among(&parameters);
        let dealt = self
            .statements()
            .filter_map(|(number, ..)| self.place(number).ok());
        let mut places = dealt.filter_map(|(place, _)| match place {
            Placement::Rank(_) => None,
            Placement::Dealt(directions) => Some(directions),
        });
        !self.has_ranks() || places.all(|all| all.iter().all(|(_, places)| is_number(places)))
    }

    /// A walk by a function of the parameters that it uses, which so is compiled once, whatever the type of the
    /// space.
    fn apart(&self, walk: &TokenStream, depth: &Literal) -> TokenStream {
        let (root, site, task) = (&self.space.root, self.space.site, &self.space.task);
        let mentioned = Mentioned::of(walk);
        let parameters = self.space.parameters.iter().map(|p| &p.name);
        let used: Vec<&Ident> = parameters.filter(|name| mentioned.has(name)).collect();
        let function = own("walk_of");
        quote_spanned! {site=>
            {
                #[allow(unused_variables, non_snake_case, clippy::too_many_arguments)]
                fn #function(
                    on: #root::rank::Rank,
                    #(#used: u32),*
                ) -> #root::space::NestWalk<
                    impl ::core::ops::Fn(usize, usize, &[u32; #depth]) -> #root::space::Steps
                        + ::core::marker::Send,
                    impl ::core::ops::Fn(usize, &[u32; #depth]) -> #task + ::core::marker::Send,
                    #depth,
                > {
                    #walk
                }
                #function(on, #(#used),*)
            }
        }
    }

    /// Whether tasks run elsewhere than on rank 0.
    fn has_ranks(&self) -> bool {
        let told = |statement: &&Statement| statement.rank.is_some();
        let mut families = self.space.families.iter();
        self.written("rank").is_some()
            || families.any(|family| family.rank.is_some())
            || self.lowered.statements.iter().any(told)
    }

    /// Where the tasks of a statement run, and with which datum: `None` if that is told with the
    /// statement.
    fn place(&self, number: usize) -> Result<(&Placement, Option<usize>)> {
        let statement = self.lowered.statements[number];
        if let Some(place) = &statement.rank {
            return Ok((place, None));
        }
        let accesses = &self.lowered.program.statements()[number].accesses;
        let mut written = accesses.iter().enumerate().filter(|(at, access)| {
            let family = self.family(number, *at);
            let is_datum = !family.is_order || family.rank.is_some();
            access.mode.writes() && family.class.is_none() && is_datum
        });
        let first = written.next().map(|(at, _)| at);
        let placed = first.and_then(|at| Some((self.family(number, at).rank.as_ref()?, first)));
        placed.ok_or_else(|| {
            let why = match first {
                Some(_) => {
                    "what it writes first has no rank; say `on RANK` among its accesses, or with the data"
                }
                None => {
                    "it writes no datum by which it could be placed; say `on RANK` among its accesses"
                }
            };
            let name = &statement.name;
            let text = format!("it is not said where `{name}` runs: {why}");
            Error::new(statement.name.span(), text)
        })
    }

    /// How the tasks of a statement are dealt out to ranks, if that is a row or a grid of them, of which the
    /// size is the same for all tasks.
    fn dealt(&self, number: usize) -> Result<Option<Dealt>> {
        let site = self.space.site;
        if !self.has_ranks() || self.written("rank").is_some() {
            return Ok(None);
        }
        let (Placement::Dealt(directions), access) = self.place(number)? else {
            return Ok(None);
        };
        let mut dealt = Dealt::new();
        for (at, (what, places)) in directions.iter().enumerate() {
            let place = match (&directions[..], at) {
                ([_], _) => quote_spanned!(site=> on.0),
                ([_, (_, columns)], 0) => quote_spanned!(site=> on.0 / #columns),
                (_, _) => quote_spanned!(site=> on.0 % #places),
            };
            let row = (directions.len() == 1).then_some(places);
            let value = self.value(number, access, what, row)?;
            dealt.push((value, place, quote_spanned!(site=> #places)));
        }
        let mut sizes = dealt.iter().map(|(.., places)| places);
        let varies = sizes.any(|places| self.varies(number, access, places));
        Ok(Some(dealt).filter(|_| !varies))
    }

    /// To how many ranks tasks are dealt out, of each row or grid of ranks that is said once and for all.
    pub(super) fn ranks(&self) -> Result<Vec<TokenStream>> {
        let mut found: Vec<TokenStream> = Vec::new();
        for (number, ..) in self.statements() {
            let Some(dealt) = self.dealt(number)? else {
                continue;
            };
            let site = self.space.site;
            let sizes = dealt.iter().map(|(.., places)| {
                quote_spanned!(site=> <u64 as ::core::convert::From<u32>>::from(#places))
            });
            let grid = |rows, columns| quote_spanned!(site=> #rows * #columns);
            let Some(n_ranks) = sizes.reduce(grid) else {
                continue;
            };
            if !found
                .iter()
                .any(|other| other.to_string() == n_ranks.to_string())
            {
                found.push(n_ranks);
            }
        }
        Ok(found)
    }

    /// Whether an expression names a parameter of the task, or a subscript of the datum that places it.
    fn varies(&self, number: usize, access: Option<usize>, e: &TokenStream) -> bool {
        let mentioned = Mentioned::of(e);
        let data = access.iter().map(|&at| self.family(number, at));
        let subscripts = data.flat_map(|family| &family.subscripts);
        let mut names = subscripts.chain(&self.lowered.statements[number].parameters);
        names.any(|name| mentioned.has(name))
    }

    /// What a name of `on (m % p, n % q)`, or of `on m % p` in a row of `p` ranks, stands for: a variable of
    /// the statement, or a subscript of the datum.
    fn value(
        &self,
        number: usize,
        access: Option<usize>,
        name: &Ident,
        row: Option<&syn::Expr>,
    ) -> Result<Affine> {
        let statement = &self.lowered.program.statements()[number];
        let found = match access {
            Some(at) => {
                let subscripts = &self.family(number, at).subscripts;
                let place = subscripts.iter().position(|own| own == name);
                place.map(|place| statement.accesses[at].subscripts[place].clone())
            }
            None => {
                let mut vars = statement.vars();
                vars.find(|&var| self.name(var) == *name).map(Affine::from)
            }
        };
        found.ok_or_else(|| {
            let mut parameters = self.space.parameters.iter();
            let instead = match parameters.any(|parameter| parameter.name == *name) {
                false => String::new(),
                true => {
                    let rank = row.map_or("…".to_owned(), |p| format!("{name} % {}", p.to_token_stream()));
                    format!("; by a parameter of the space say the rank itself, `on Rank({rank})`")
                }
            };
            let text = format!(
                "`{name}` is neither a subscript of these data nor a parameter of this task{instead}"
            );
            Error::new(name.span(), text)
        })
    }

    pub(super) fn rank(&self) -> Result<TokenStream> {
        let (root, site) = (&self.space.root, self.space.site);
        if !self.has_ranks() {
            return Ok(TokenStream::new());
        }
        let mut arms = Vec::new();
        for (number, statement, derived) in self.statements() {
            let (place, access) = self.place(number)?;
            let rank = self.rank_at(place);
            let body = match access {
                Some(at) => {
                    self.expect_not_negative(number, at, &rank)?;
                    let subscripts = &derived.accesses[at].subscripts;
                    self.of_datum(self.family(number, at), subscripts, rank)
                }
                None => rank,
            };
            let pattern = self.pattern(statement, &body);
            arms.push(quote_spanned!(site=> #pattern => #body,));
        }
        let lets = self.lets(&arms.iter().cloned().collect());
        Ok(quote_spanned! {site=>
            #[allow(unused_variables)]
            #[inline(always)]
            fn rank(&self, task: Self::Task) -> #root::rank::Rank {
                #lets
                match task { #(#arms)* }
            }
        })
    }

    /// No subscript by which a task is placed is negative: ranks are computed from numbers that are not. Of
    /// data in a store none is anyway.
    fn expect_not_negative(&self, number: usize, at: usize, rank: &TokenStream) -> Result<()> {
        let statement = &self.lowered.program.statements()[number];
        let family = self.family(number, at);
        let values = statement.accesses[at].subscripts.iter();
        let written = &self.lowered.statements[number].accesses[at].subscripts;
        let mentioned = Mentioned::of(rank);
        for ((name, value), shown) in family.subscripts.iter().zip(values).zip(written) {
            let is_free = family.home.is_none() && mentioned.has(name);
            if is_free && may_be_negative(value, statement) {
                let text = format!(
                    "`{}` may be negative here, and this task is placed by it: subtract elsewhere, or say \
                     `on RANK` among its accesses",
                    shown.to_token_stream()
                );
                return Err(Error::new_spanned(shown, text));
            }
        }
        Ok(())
    }

    /// The rank that a place is, by the names that stand in it.
    fn rank_at(&self, place: &Placement) -> TokenStream {
        let (root, site) = (&self.space.root, self.space.site);
        match place {
            Placement::Rank(rank) => quote_spanned!(site=> #rank),
            Placement::Dealt(directions) => {
                let mut number = None;
                for (what, places) in directions {
                    number = Some(match number {
                        None => quote_spanned!(site=> #what % #places),
                        Some(row) => quote_spanned!(site=> #row * #places + #what % #places),
                    });
                }
                quote_spanned!(site=> #root::rank::Rank(#number))
            }
        }
    }

    /// Whose store the data are in that tasks take from home or bring there, but for those with which
    /// the tasks are placed.
    pub(super) fn owner(&self) -> Result<TokenStream> {
        let (root, site) = (&self.space.root, self.space.site);
        let mut arms = Vec::new();
        for (number, statement, derived) in self.statements().filter(|_| self.has_ranks()) {
            let tasks = &self.derived.tasks[number];
            let with = match self.written("rank") {
                Some(_) => None,
                None => self.place(number)?.1.map(|at| &derived.accesses[at]),
            };
            for (at, access) in derived.accesses.iter().enumerate() {
                let family = self.family(number, at);
                let taken = tasks.inputs[at].iter().any(|input| input.source.is_none());
                let is_home = family.home.is_some() && (taken || !tasks.homes[at].is_empty());
                let datum = |a: &dataflow_affine::Access| (a.family, a.subscripts.clone());
                let Some(place) = family.rank.as_ref().filter(|_| is_home) else {
                    continue;
                };
                if with.is_some_and(|with| datum(with) == datum(access)) {
                    continue;
                }
                let flow = proc_macro2::Literal::usize_unsuffixed(self.flow(number, at));
                let rank = self.of_datum(family, &access.subscripts, self.rank_at(place));
                let pattern = self.pattern(statement, &rank);
                arms.push(quote_spanned!(site=> (#pattern, #flow) => #rank,));
            }
        }
        if arms.is_empty() {
            return Ok(TokenStream::new());
        }
        let (lets, flow) = (self.lets(&arms.iter().cloned().collect()), own("flow"));
        Ok(quote_spanned! {site=>
            #[allow(unused_variables)]
            fn owner(&self, task: Self::Task, #flow: usize) -> #root::rank::Rank {
                #lets
                match (task, #flow) { #(#arms)* _ => #root::space::TaskSpace::rank(self, task), }
            }
        })
    }

    /// The number of a rank's tasks: a polynomial where there is one and a rank has them all, otherwise sums
    /// of lengths of loops. What no rank could list is not listed.
    pub(super) fn count(&self) -> Result<TokenStream> {
        let (root, site) = (&self.space.root, self.space.site);
        let listed = quote_spanned! {site=>
            ::core::iter::Iterator::count(#root::space::TaskSpace::tasks(self, on)) as u64
        };
        let body = match (self.number_of_all(), self.alone()?) {
            (None, None) => return Ok(TokenStream::new()),
            (None, Some(_)) => listed,
            (Some(whole), alone) => self.by_number_of_all(&whole, alone, &listed),
        };
        Ok(quote_spanned! {site=>
            #[allow(unused_variables, clippy::identity_op)]
            fn count(&self, on: #root::rank::Rank) -> u64 { #body }
        })
    }

    /// Conditions under which the first rank has all tasks; `None`: they are not dealt out.
    fn alone(&self) -> Result<Option<Vec<TokenStream>>> {
        let mut alone: Vec<TokenStream> = Vec::new();
        for (number, ..) in self.statements().filter(|_| self.has_ranks()) {
            let Some(dealt) = self.dealt(number)? else {
                return Ok(None);
            };
            for (_, _, places) in dealt {
                let one = quote_spanned!(self.space.site=> #places == 1);
                if alone.iter().all(|own| own.to_string() != one.to_string()) {
                    alone.push(one);
                }
            }
        }
        Ok(Some(alone))
    }

    /// How many tasks all ranks have; `None` if it is not exact.
    fn number_of_all(&self) -> Option<Polynomial> {
        let mut whole = Polynomial::default();
        for (_, _, derived) in self.statements() {
            whole = whole.and(&count(&self.lowered.program, derived).ok()??);
        }
        Some(whole)
    }

    /// The number of all tasks, where it is that of a rank; else what is `listed`.
    fn by_number_of_all(
        &self,
        whole: &Polynomial,
        alone: Option<Vec<TokenStream>>,
        listed: &TokenStream,
    ) -> TokenStream {
        let (root, site) = (&self.space.root, self.space.site);
        let all = self.counted(whole);
        let said = [&all].into_iter().chain(alone.iter().flatten());
        let lets = self.lets(&said.cloned().collect());
        let n_all = own("all");
        let first = quote_spanned!(site=> on == #root::rank::Rank(0));
        let endless = quote_spanned!(site=> #n_all == u64::MAX);
        let is_asked = match (self.has_ranks(), alone) {
            (false, _) => first,
            (true, None) => endless,
            (true, Some(alone)) => quote_spanned!(site=> #endless || #first #(&& #alone)*),
        };
        quote_spanned! {site=>
            #lets
            let #n_all = #all;
            if #is_asked { #n_all } else { #listed }
        }
    }

    /// The value of a polynomial in the parameters: a table of its terms, which the core sums up.
    fn counted(&self, whole: &Polynomial) -> TokenStream {
        let (root, site) = (&self.space.root, self.space.site);
        let terms = whole.terms().map(|(coefficient, powers)| {
            let each = |&(var, power): &(_, u32)| (0..power).map(move |_| self.name(var));
            let factors = powers.iter().flat_map(each);
            let coefficient = Literal::i128_unsuffixed(coefficient);
            quote_spanned!(site=> (#coefficient, &[#(#factors),*]))
        });
        let divisor = Literal::i128_unsuffixed(whole.divisor());
        quote_spanned!(site=> #root::space::counted(&[#(#terms),*], #divisor))
    }
}
