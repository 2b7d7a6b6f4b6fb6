//! From what is written to a program of `dataflow-affine`.

use crate::parse::{Access, End, Family, For, If, Item, Relation, Space, Statement};
use crate::put::expect_put;
use dataflow_affine::{Affine, Condition, Mode, Program, System, Var, disjoint};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{BinOp, Error, Expr, ExprBinary, ExprPath, Ident, Lit, RangeLimits, Result, UnOp};

/// The program, and what of the text each part of it was.
pub struct Lowered<'s> {
    pub program: Program,
    /// The statements by number.
    pub statements: Vec<&'s Statement>,
    /// The variables of loops, as they are written.
    pub loops: Vec<(Var, Ident)>,
    /// The parameters, as they are written.
    pub parameters: Vec<(Var, Ident)>,
    /// The lines, and whether all edges are written so; otherwise they are added to those of the loops.
    pub relations: Vec<dataflow_affine::Relation>,
    pub by_lines: bool,
}

/// Names that the generated functions use themselves.
const TAKEN: [&str; 7] = ["task", "from", "to", "on", "about", "flows", "self"];

/// What can be named in an expression: inner loops last.
type NamesInScope = Vec<(Ident, Var)>;

/// A name as it is shown: without the mark of one that is a word of Rust.
pub(crate) fn plain(name: &Ident) -> String {
    name.unraw().to_string()
}

fn names(scope: &NamesInScope) -> impl Iterator<Item = &Ident> {
    scope.iter().map(|(name, _)| name)
}

pub fn lower(space: &Space) -> Result<Lowered<'_>> {
    dataflow_affine::forget(); // before conditions are taken apart
    let mut lowered = Lowered {
        program: Program::default(),
        statements: Vec::new(),
        loops: Vec::new(),
        parameters: Vec::new(),
        relations: Vec::new(),
        by_lines: false,
    };
    let mut scope = lowered.parameters(space)?;
    lowered.families(space, &scope)?;
    lowered.items(space, &space.items, &mut scope)?;
    lowered.expect_classes(space)?;
    lowered.relations(space, &scope)?;
    lowered.expect_ordered(space)?;
    Ok(lowered)
}

fn expect_free<'n>(name: &Ident, mut around: impl Iterator<Item = &'n Ident>) -> Result<()> {
    let reason = match () {
        () if TAKEN.iter().any(|taken| name == taken) => {
            "is a name that the generated functions use"
        }
        () if around.any(|other| other == name) => {
            "is the name of a parameter or of a loop around already"
        }
        () => return Ok(()),
    };
    let text = format!("`{name}` {reason}: take another one");
    Err(Error::new(name.span(), text))
}

/// Each access of a statement has a name of its own: it is a variable of the body.
fn expect_own_names(of: &Statement) -> Result<()> {
    let names: Vec<&Ident> = of.accesses.iter().filter_map(|a| a.name.as_ref()).collect();
    let twice = (0..names.len()).find(|&at| names[..at].contains(&names[at]));
    twice.map_or(Ok(()), |at| {
        let text = format!(
            "`{}` has two data called `{}`: each of its accesses has a name of its own",
            of.name, names[at]
        );
        Err(Error::new(names[at].span(), text))
    })
}

impl<'s> Lowered<'s> {
    /// The parameters that something affine names: what stands only in ranks, slots and bodies would cost
    /// the analysis time.
    fn parameters(&mut self, space: &Space) -> Result<NamesInScope> {
        let affine = idents(space.affine_parts());
        let mut scope = NamesInScope::new();
        for (at, parameter) in space.parameters.iter().enumerate() {
            let earlier = space.parameters[..at].iter();
            expect_free(&parameter.name, earlier.map(|other| &other.name))?;
            if !affine.contains(&parameter.name) {
                continue;
            }
            let var = self.program.parameter(&plain(&parameter.name));
            self.parameters.push((var, parameter.name.clone()));
            scope.push((parameter.name.clone(), var));
        }
        Ok(scope)
    }

    fn families(&mut self, space: &Space, scope: &NamesInScope) -> Result<()> {
        for (at, family) in space.families.iter().enumerate() {
            let is_the_same = |f: &Family| f.name == family.name && f.class == family.class;
            if space.families[..at].iter().any(is_the_same) {
                let name = &family.name;
                let text = match &family.class {
                    None => format!("`{name}` is declared twice"),
                    Some(class) => format!(
                        "there are two flows `{class}.{name}`: each class of tasks, and each flow of a class, \
                         has a name of its own"
                    ),
                };
                return Err(Error::new(family.name.span(), text));
            }
            self.family(family, scope)?;
        }
        Ok(())
    }

    fn family(&mut self, family: &Family, scope: &NamesInScope) -> Result<()> {
        let number = self
            .program
            .family(&plain(&family.name), family.home.is_some());
        if family.is_order {
            self.program.orders(number);
        }
        if family.class.is_some() {
            self.program.related(number);
        }
        let mut inner = scope.clone();
        let mut subscripts = Vec::new();
        for name in &family.subscripts {
            expect_free(name, names(&inner))?;
            let var = self.program.subscript(&plain(name));
            subscripts.push(var);
            inner.push((name.clone(), var));
        }
        let anywhere = System::default();
        let mut inside = match &family.domain {
            None => anywhere,
            Some(domain) => match &condition(domain, &inner, &anywhere, true)?[..] {
                [only] => only.clone(),
                [] => return Err(never(domain)),
                _ => {
                    let text = "the data of a family are one conjunction: `where 0 < i && i < n`";
                    return Err(Error::new_spanned(domain, text));
                }
            },
        };
        if family.home.is_some() {
            // No store has a place before its first.
            inside = inside.with(subscripts.iter().map(|&var| Affine::from(var)));
        }
        self.program.limit(number, subscripts, inside);
        Ok(())
    }

    fn items(&mut self, space: &Space, items: &'s [Item], scope: &mut NamesInScope) -> Result<()> {
        for item in items {
            match item {
                Item::For(each) => self.each(space, each, scope)?,
                Item::If(parts) => self.parts(space, parts, scope)?,
                Item::Task(statement) => self.statement(space, statement, scope)?,
            }
        }
        Ok(())
    }

    fn each(&mut self, space: &Space, each: &'s For, scope: &mut NamesInScope) -> Result<()> {
        expect_free(&each.var, names(scope))?;
        let (range, descends) = match strip(&each.range) {
            Expr::MethodCall(call) if call.method == "rev" && call.args.is_empty() => {
                (strip(&call.receiver), true)
            }
            Expr::MethodCall(call) if call.method == "step_by" => {
                let text = "a loop takes every value of its range: loop to the quotient, a parameter \
                            `let half = n.div_ceil(2);`, and write the multiple where it is meant, `for h in \
                            0..half { … A[2 * h] … }`";
                return Err(Error::new_spanned(&each.range, text));
            }
            other => (other, false),
        };
        let (from, to) = bounds(range, scope)?;
        let var = self.program.enter(&plain(&each.var), from, to, descends);
        self.loops.push((var, each.var.clone()));
        scope.push((each.var.clone(), var));
        self.items(space, &each.body, scope)?;
        scope.pop();
        self.program.leave();
        Ok(())
    }

    fn parts(&mut self, space: &Space, parts: &'s If, scope: &mut NamesInScope) -> Result<()> {
        for (items, positive) in [(&parts.then, true), (&parts.otherwise, false)] {
            if items.is_empty() {
                continue;
            }
            let known = self.program.known();
            self.program
                .only_if(condition(&parts.condition, scope, &known, positive)?);
            self.items(space, items, scope)?;
            self.program.unless();
        }
        Ok(())
    }

    fn statement(&mut self, space: &Space, of: &'s Statement, scope: &NamesInScope) -> Result<()> {
        let loops = scope[self.parameters.len()..].iter();
        let shown = loops_shown(of, &loops.map(|s| &s.0).collect::<Vec<_>>())?;
        expect_own_names(of)?;
        let mut accesses = Vec::new();
        for access in &of.accesses {
            let family = family(space, of, access)?;
            let mode = access_mode(of, access, &space.families[family])?;
            let subscripts = access.subscripts.iter();
            let subscripts = subscripts.map(|e| affine(e, scope, "subscript"));
            accesses.push((mode, family, subscripts.collect::<Result<Vec<_>>>()?));
        }
        let parts: Vec<_> = accesses.iter().map(|(m, f, s)| (*m, *f, &s[..])).collect();
        self.program.task(&plain(&of.name), &parts);
        let names = of.accesses.iter().map(|a| a.name.as_ref().map(plain));
        self.program.show(names.collect(), shown);
        self.statements.push(of);
        Ok(())
    }
}

/// Which of the loops around a statement each of its parameters is: it names all of them.
fn loops_shown(of: &Statement, loops: &[&Ident]) -> Result<Vec<usize>> {
    let mut shown = Vec::new();
    for parameter in &of.parameters {
        match loops.iter().position(|var| *var == parameter) {
            Some(at) if !shown.contains(&at) => shown.push(at),
            _ => return Err(wrong_parameters(of, parameter, loops)),
        }
    }
    match shown.len() == loops.len() {
        true => Ok(shown),
        false => Err(wrong_parameters(of, &of.name, loops)),
    }
}

/// The family of data that a statement accesses.
fn family(space: &Space, of: &Statement, access: &Access) -> Result<usize> {
    let class = access.is_flow.then_some(&of.name);
    let is_its = |f: &Family| f.name == access.family && f.class.as_ref() == class;
    let Some(family) = space.families.iter().position(is_its) else {
        let name = &access.family;
        let text = format!("no data are called `{name}`: declare them, `data {name}[i] …;`");
        return Err(Error::new(name.span(), text));
    };
    let declared = &space.families[family];
    let (n, own) = (declared.subscripts.len(), access.subscripts.len());
    if own != n {
        let subscripts = if n == 1 { "subscript" } else { "subscripts" };
        let text = format!("`{}` has {n} {subscripts}, this one {own}", declared.name);
        return Err(Error::new_spanned(&access.element, text));
    }
    Ok(family)
}

fn access_mode(of: &Statement, access: &Access, declared: &Family) -> Result<Mode> {
    let is_named = access.name.is_some() || declared.is_order;
    if access.mode == "new" && !is_named && of.body.is_some() {
        let element = access.shown();
        let text = format!(
            "this body cannot make `{element}`: name it, `new made = {element}`, and `put` it"
        );
        return Err(Error::new_spanned(&access.element, text));
    }
    if access.mode == "new"
        && !declared.is_order
        && let (Some(name), Some(body)) = (&access.name, &of.body)
    {
        expect_put(name, body)?;
    }
    Ok(match access.mode.to_string().as_str() {
        "read" | "optional" if declared.is_order => Mode::Optional,
        "read" => Mode::Read,
        "optional" => Mode::Optional,
        "update" | "order" => Mode::Update,
        "give" => Mode::Give,
        _ => Mode::New,
    })
}

impl Lowered<'_> {
    /// There is a task, and each class of tasks has a name of its own.
    fn expect_classes(&self, space: &Space) -> Result<()> {
        if self.statements.is_empty() {
            let text = "the space has no task: `Name { k }: update tile = A[k] => …`";
            return Err(Error::new(space.site, text));
        }
        for (at, statement) in self.statements.iter().enumerate() {
            let mut earlier = self.statements[..at].iter();
            if earlier.any(|other| other.name == statement.name) {
                let text = format!(
                    "two statements are called `{}`: the name tells one class of tasks from the others",
                    statement.name
                );
                return Err(Error::new(statement.name.span(), text));
            }
        }
        Ok(())
    }

    fn relations(&mut self, space: &Space, parameters: &NamesInScope) -> Result<()> {
        for line in &space.relations {
            let (relation, orders) = self.relation(line, parameters)?;
            self.relations.push(relation);
            self.by_lines |= !orders;
        }
        Ok(())
    }

    /// A line, and whether it only orders tasks.
    fn relation(
        &mut self,
        line: &Relation,
        parameters: &NamesInScope,
    ) -> Result<(dataflow_affine::Relation, bool)> {
        let scope = self.scope_of(line, parameters)?;
        let condition = condition_of(line, &scope)?;
        let source = self.end(&line.source, &scope)?;
        let target = match &line.target {
            None => {
                self.expect_home(&line.source, &source)?;
                None
            }
            Some(written) => {
                let target = self.end(written, &scope)?;
                self.expect_alike((&line.source, &source), (written, &target))?;
                Some(target)
            }
        };
        let orders = self.family_of(&source).orders;
        let relation = dataflow_affine::Relation {
            source,
            target,
            condition,
        };
        Ok((relation, orders))
    }

    /// What can be named in a line: every name in it that is no parameter is a variable of its own.
    fn scope_of(&mut self, line: &Relation, parameters: &NamesInScope) -> Result<NamesInScope> {
        let mut scope = parameters.clone();
        let ends = [Some(&line.source), line.target.as_ref()];
        let fields = ends.iter().flatten().flat_map(|end| &end.fields);
        let values: TokenStream = fields.map(|field| field.1.to_token_stream()).collect();
        for (name, _) in &line.ranges {
            expect_free(name, names(parameters))?;
        }
        let ranged = line.ranges.iter().map(|range| range.0.clone());
        for name in ranged.chain(idents(values)) {
            if scope.iter().all(|(own, _)| *own != name) {
                let var = self.program.subscript(&plain(&name));
                scope.push((name, var));
            }
        }
        Ok(scope)
    }

    /// What goes home has a store there, and its task may have changed it.
    fn expect_home(&self, written: &End, source: &dataflow_affine::End) -> Result<()> {
        let flow = &written.flow;
        if !self.family_of(source).stored {
            let text = format!(
                "`{flow}` has no store to go home to: say which datum it is, `update {flow} = A[…]`"
            );
            return Err(Error::new(flow.span(), text));
        }
        if !self.access_of(source).mode.changes() {
            let text = format!(
                "`{flow}` is only read and stays where it is: leave this line away, or `update {flow}`"
            );
            return Err(Error::new(flow.span(), text));
        }
        Ok(())
    }

    /// The target takes in what the source hands out: a datum, or only an order.
    fn expect_alike(
        &self,
        (from, source): (&End, &dataflow_affine::End),
        (to, target): (&End, &dataflow_affine::End),
    ) -> Result<()> {
        if !self.access_of(target).mode.reads() {
            let (flow, class) = (&to.flow, &to.class);
            let text = format!(
                "`{flow}` of `{class}` is made `new` and takes nothing in: `read` or `update` it, or leave \
                 this line away"
            );
            return Err(Error::new(flow.span(), text));
        }
        if self.family_of(target).orders != self.family_of(source).orders {
            let text = format!(
                "of `{}` and `{}` one carries a datum and the other one only orders",
                from.flow, to.flow
            );
            return Err(Error::new(to.flow.span(), text));
        }
        Ok(())
    }

    fn access_of(&self, end: &dataflow_affine::End) -> &dataflow_affine::Access {
        &self.program.statements()[end.statement].accesses[end.access]
    }

    fn family_of(&self, end: &dataflow_affine::End) -> &dataflow_affine::Family {
        &self.program.families()[self.access_of(end).family]
    }

    /// No edge of an `order` family is lost: its elements order tasks by loops, or where all edges are
    /// lines, each by a line.
    fn expect_ordered(&self, space: &Space) -> Result<()> {
        for (number, statement) in self.statements.iter().enumerate() {
            let its = &self.program.statements()[number].accesses;
            for (at, access) in statement.accesses.iter().enumerate() {
                let family = &space.families[its[at].family];
                if family.is_order
                    && family.class.is_none()
                    && self.has_line(number, at) != self.by_lines
                {
                    return Err(without_edge(statement, access, self.by_lines));
                }
            }
        }
        Ok(())
    }

    /// Whether an access is an end of some line.
    fn has_line(&self, statement: usize, access: usize) -> bool {
        let ends =
            |line: &dataflow_affine::Relation| [Some(line.source.clone()), line.target.clone()];
        let mut ends = self.relations.iter().flat_map(ends).flatten();
        ends.any(|end| (end.statement, end.access) == (statement, access))
    }

    fn end(&self, end: &End, scope: &NamesInScope) -> Result<dataflow_affine::End> {
        let found = self.statements.iter().position(|s| s.name == end.class);
        let Some(statement) = found else {
            let text = format!("no tasks are called `{}`", end.class);
            return Err(Error::new(end.class.span(), text));
        };
        let written = self.statements[statement];
        let flow = |access: &crate::parse::Access| access.name.as_ref() == Some(&end.flow);
        let Some(access) = written.accesses.iter().position(flow) else {
            let text = format!("`{}` has no flow `{}`", end.class, end.flow);
            return Err(Error::new(end.flow.span(), text));
        };
        let shown = &self.program.statements()[statement].shown;
        let mut iteration = vec![Affine::default(); shown.len()];
        for (parameter, &at) in written.parameters.iter().zip(shown) {
            let field = end.fields.iter().find(|field| field.0 == *parameter);
            let Some((_, value)) = field.filter(|_| end.fields.len() == shown.len()) else {
                let loops: Vec<&Ident> = written.parameters.iter().collect();
                return Err(wrong_parameters(written, &end.class, &loops));
            };
            iteration[at] = affine(value, scope, "parameter")?;
        }
        Ok(dataflow_affine::End {
            statement,
            access,
            iteration,
        })
    }
}

/// What holds along a line: its ranges and its conditions.
fn condition_of(line: &Relation, scope: &NamesInScope) -> Result<System> {
    let mut whole = System::default();
    for (var, range) in &line.ranges {
        let (from, to) = bounds(range, scope)?;
        let var = affine(&syn::parse_quote!(#var), scope, "variable")?;
        whole = whole.and(&System::new([var.clone() - from, to - var - 1]));
    }
    for part in &line.conditions {
        match &condition(part, scope, &System::default(), true)?[..] {
            [only] => whole = whole.and(only),
            [] => return Err(never(part)),
            _ => {
                let text = "a line has one conjunction: write a line for each alternative";
                return Err(Error::new_spanned(part, text));
            }
        }
    }
    Ok(whole)
}

/// What is wrong with a condition that leaves no datum, or no edge.
fn never(condition: &Expr) -> Error {
    Error::new_spanned(condition, "this condition never holds")
}

/// What is affine in loops, conditions and statements; the loops' variables as well, so that none hides a
/// parameter unseen.
fn affine_parts(items: &[Item], parts: &mut TokenStream) {
    for item in items {
        match item {
            Item::For(each) => {
                each.var.to_tokens(parts);
                each.range.to_tokens(parts);
                affine_parts(&each.body, parts);
            }
            Item::If(either) => {
                either.condition.to_tokens(parts);
                affine_parts(&either.then, parts);
                affine_parts(&either.otherwise, parts);
            }
            Item::Task(statement) => {
                let subscripts = statement.accesses.iter().flat_map(|a| &a.subscripts);
                subscripts.for_each(|subscript| subscript.to_tokens(parts));
            }
        }
    }
}

impl Space {
    /// All that is affine in it.
    fn affine_parts(&self) -> TokenStream {
        let mut parts = TokenStream::new();
        affine_parts(&self.items, &mut parts);
        for family in &self.families {
            family.domain.to_tokens(&mut parts);
        }
        for line in &self.relations {
            line.affine_parts(&mut parts);
        }
        parts
    }
}

impl Relation {
    /// What is affine in a line.
    fn affine_parts(&self, parts: &mut TokenStream) {
        let ends = [Some(&self.source), self.target.as_ref()];
        let fields = ends.into_iter().flatten().flat_map(|end| &end.fields);
        fields.for_each(|field| field.1.to_tokens(parts));
        self.ranges
            .iter()
            .for_each(|range| range.1.to_tokens(parts));
        self.conditions
            .iter()
            .for_each(|part| part.to_tokens(parts));
    }
}

/// The names in an expression.
fn idents(tokens: TokenStream) -> Vec<Ident> {
    let names = |token| match token {
        TokenTree::Ident(ident) => vec![ident],
        TokenTree::Group(group) => idents(group.stream()),
        _ => Vec::new(),
    };
    tokens.into_iter().flat_map(names).collect()
}

/// An element of an `order` family that is not ordered by what says the edges of its space.
fn without_edge(statement: &Statement, access: &Access, by_lines: bool) -> Error {
    let (name, element) = (&statement.name, access.shown());
    let text = match by_lines {
        true => format!(
            "no line names `{element}` of `{name}`, and in this space lines say all edges: write \
             `order done` for it and a line, `{name} {{ … }}.done -> …`"
        ),
        false => format!(
            "`{element}` of `{name}` orders tasks as the loops do, and no line changes that: write \
             `order done` for it, which lines order"
        ),
    };
    Error::new_spanned(&access.element, text)
}

fn wrong_parameters(of: &Statement, at: &Ident, loops: &[&Ident]) -> Error {
    let loops: Vec<String> = loops.iter().map(|var| var.to_string()).collect();
    let text = format!(
        "the parameters of a task are the variables of the loops around it, each once, in any order: \
         `{} {{ {} }}`",
        of.name,
        loops.join(", ")
    );
    Error::new(at.span(), text)
}

/// The first value of a range, and the one after its last.
fn bounds(range: &Expr, scope: &NamesInScope) -> Result<(Affine, Affine)> {
    let Expr::Range(range) = strip(range) else {
        let text = "the bounds of a loop are a range, `a..b` or `a..=b`, or `(a..b).rev()`";
        return Err(Error::new_spanned(range, text));
    };
    let (Some(from), Some(to)) = (&range.start, &range.end) else {
        let text = "a loop needs both bounds: the tasks of a space are finite in number";
        return Err(Error::new_spanned(range, text));
    };
    let from = affine(from, scope, "bound")?;
    let to = affine(to, scope, "bound")?;
    match range.limits {
        RangeLimits::HalfOpen(_) => Ok((from, to)),
        RangeLimits::Closed(_) => Ok((from, to + 1)),
    }
}

fn strip(e: &Expr) -> &Expr {
    match e {
        Expr::Paren(inner) => strip(&inner.expr),
        Expr::Group(inner) => strip(&inner.expr),
        _ => e,
    }
}

/// The largest number that an expression may have, and the largest factor: what is derived from sums and
/// products of few of these fits into `i64`.
const LARGEST: u64 = 1 << 32;

/// A product, unless its numbers are too large.
fn times(e: &Expr, a: &Affine, factor: i64, what: &str) -> Result<Affine> {
    let mut numbers = a.terms().iter().map(|term| term.1).chain([a.constant()]);
    let fits = |number: i64| {
        let product = number.checked_mul(factor);
        product.is_some_and(|product| product.unsigned_abs() <= LARGEST)
    };
    match numbers.all(fits) {
        true => Ok(a.times(factor)),
        false => Err(too_large(e, what)),
    }
}

fn too_large(e: &Expr, what: &str) -> Error {
    let shown = e.to_token_stream();
    let text =
        format!("the numbers of this {what} are too large: `{shown}` ({LARGEST} is the most)");
    Error::new_spanned(e, text)
}

/// An expression as an affine one; `what` it is, for errors.
fn affine(e: &Expr, scope: &NamesInScope, what: &str) -> Result<Affine> {
    match strip(e) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => match number.base10_parse::<u64>() {
                Ok(number @ ..=LARGEST) => Ok(Affine::from(number as i64)),
                _ => Err(too_large(e, what)),
            },
            _ => Err(not_affine(e, what, "is no integer")),
        },
        Expr::Path(path) => variable(path, scope),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            Ok(-affine(&unary.expr, scope, what)?)
        }
        Expr::Binary(binary) => match binary.op {
            BinOp::Add(_) => sides(binary, scope, what).map(|(a, b)| a + b),
            BinOp::Sub(_) => sides(binary, scope, what).map(|(a, b)| a - b),
            BinOp::Mul(_) => match sides(binary, scope, what)? {
                (a, b) if a.terms().is_empty() => times(e, &b, a.constant(), what),
                (a, b) if b.terms().is_empty() => times(e, &a, b.constant(), what),
                _ => Err(not_affine(e, what, "multiplies two variables")),
            },
            BinOp::Div(_) | BinOp::Rem(_) => Err(not_affine(e, what, "divides")),
            _ => Err(not_affine(e, what, "is no sum")),
        },
        Expr::MethodCall(call) if call.method == "min" || call.method == "max" => {
            Err(not_affine(e, what, "takes one of two"))
        }
        Expr::Call(_) | Expr::MethodCall(_) | Expr::Field(_) => {
            Err(not_affine(e, what, "calls or looks something up"))
        }
        Expr::Cast(_) => Err(not_affine(e, what, "casts")),
        _ => Err(not_affine(e, what, "is no sum")),
    }
}

/// Both sides of an operation or a comparison.
fn sides(binary: &ExprBinary, scope: &NamesInScope, what: &str) -> Result<(Affine, Affine)> {
    let left = affine(&binary.left, scope, what)?;
    Ok((left, affine(&binary.right, scope, what)?))
}

/// A parameter of the space or the variable of a loop.
fn variable(path: &ExprPath, scope: &NamesInScope) -> Result<Affine> {
    let name = path.path.get_ident();
    let found = name.and_then(|name| scope.iter().rev().find(|(own, _)| own == name));
    if let Some((_, var)) = found {
        return Ok(Affine::from(*var));
    }
    let shown = path.to_token_stream().to_string().replace(' ', "");
    let text = match name {
        Some(_) => format!(
            "`{shown}` is neither a parameter of the space (`let {shown} = self.{shown};`) nor the \
             variable of a loop around"
        ),
        None => format!(
            "`{shown}` is looked up: name it as a parameter of the space, `let n = {shown};`"
        ),
    };
    Err(Error::new_spanned(path, text))
}

fn not_affine(e: &Expr, what: &str, why: &str) -> Error {
    let advice = match why {
        "divides" => {
            "if it is the same for all tasks, name it as a parameter of the space, `let half = n / 2;`, otherwise \
             write a loop over the quotient, and for each remainder a statement or an array of its own"
        }
        "casts" => {
            "no cast is needed, for the numbers in loops, conditions and subscripts are of one type"
        }
        "takes one of two" => {
            "write one of them, and the other one as a condition in the loop, `if m <= k + b { … }`"
        }
        "calls or looks something up" => {
            "name it as a parameter of the space, `let n = …;`, if it is the same for all tasks"
        }
        _ => "it is a sum of variables and parameters, each times an integer, and of an integer",
    };
    let shown = e.to_token_stream();
    let text = format!("this {what} is not affine: `{shown}` {why}; {advice}");
    Error::new_spanned(e, text)
}

/// A condition, or what holds where it does not, as disjoint conjunctions, where something is known.
fn condition(e: &Expr, scope: &NamesInScope, known: &System, positive: bool) -> Result<Condition> {
    let parts = alternatives(e, scope, known, positive)?;
    disjoint(parts).map_err(|inexact| {
        if inexact.is_too_long() {
            return too_many_parts(e);
        }
        let why = match inexact.constraints[0].is_too_large() {
            true => "its numbers are too large; use smaller factors",
            false => "use variables with the factor 1 or -1",
        };
        Error::new_spanned(e, format!("this condition has no exact parts: {why}"))
    })
}

fn too_many_parts(condition: &Expr) -> Error {
    let text = "this condition holds in too many parts (at most 64): each `!=` doubles them, and so does each `||` of \
                what may hold at once. Say by the loops' bounds what it says, or make statements of its parts";
    Error::new_spanned(condition, text)
}

/// Conjunctions of which one holds at least, some thousand at most. Of products only those stay that are possible where something
/// is known: of six `i != 0` they are 64, and one where all `i` begin at 0.
fn alternatives(
    e: &Expr,
    scope: &NamesInScope,
    known: &System,
    positive: bool,
) -> Result<Vec<System>> {
    let Expr::Binary(binary) = strip(e) else {
        return match strip(e) {
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
                alternatives(&unary.expr, scope, known, !positive)
            }
            other => Err(no_condition(other)),
        };
    };
    match (binary.op, positive) {
        (BinOp::And(_), true) | (BinOp::Or(_), false) => {
            let left = alternatives(&binary.left, scope, known, positive)?;
            let right = alternatives(&binary.right, scope, known, positive)?;
            let both = left
                .iter()
                .flat_map(|a| right.iter().map(move |b| a.and(b)));
            let both: Vec<System> = both.collect();
            if both.len() > MOST_PRODUCTS {
                return Err(too_many_parts(e));
            }
            let is_possible = |part: &&System| known.and(part).is_empty() != Ok(true);
            let possible: Vec<System> = both.iter().filter(is_possible).cloned().collect();
            // One that never holds keeps its parts, as a statement without tasks does.
            Ok(if possible.is_empty() { both } else { possible })
        }
        (BinOp::Or(_), true) | (BinOp::And(_), false) => {
            let mut either = alternatives(&binary.left, scope, known, positive)?;
            either.extend(alternatives(&binary.right, scope, known, positive)?);
            Ok(either)
        }
        _ => compared(binary, scope, positive),
    }
}

/// Conjunctions of which those that are impossible are left out.
const MOST_PRODUCTS: usize = 1024;

/// What one comparison says, or what holds where it does not.
fn compared(binary: &ExprBinary, scope: &NamesInScope, positive: bool) -> Result<Vec<System>> {
    use BinOp::{Eq, Ge, Gt, Le, Lt, Ne};
    if !matches!(binary.op, Eq(_) | Ge(_) | Gt(_) | Le(_) | Lt(_) | Ne(_)) {
        return Err(no_condition(binary));
    }
    let (a, b) = sides(binary, scope, "side of a condition")?;
    let at_most = |a: &Affine, b: &Affine| System::new([b.clone() - a.clone()]);
    let less = |a: &Affine, b: &Affine| System::new([b.clone() - a.clone() - 1]);
    Ok(match (binary.op, positive) {
        (Lt(_), true) | (Ge(_), false) => vec![less(&a, &b)],
        (Gt(_), true) | (Le(_), false) => vec![less(&b, &a)],
        (Le(_), true) | (Gt(_), false) => vec![at_most(&a, &b)],
        (Ge(_), true) | (Lt(_), false) => vec![at_most(&b, &a)],
        (Eq(_), true) | (Ne(_), false) => vec![dataflow_affine::equation(&a, &b)],
        _ => vec![less(&a, &b), less(&b, &a)],
    })
}

fn no_condition(e: &impl ToTokens) -> Error {
    let text = "a condition compares affine expressions: `m > k + 1 && n != k`";
    Error::new_spanned(e, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_none_of_six_equations_holds_is_one_part_within_loops_from_0() {
        let mut program = Program::default();
        let n = program.parameter("n");
        let mut scope = NamesInScope::new();
        for name in ["i", "j", "k", "l", "p", "q"] {
            let var = program.enter(name, 0.into(), n.into(), false);
            scope.push((Ident::new(name, proc_macro2::Span::call_site()), var));
        }
        let e: Expr = syn::parse_quote!(i == 0 || j == 0 || k == 0 || l == 0 || p == 0 || q == 0);
        let parts =
            |known: &System| alternatives(&e, &scope, known, false).map_or(0, |all| all.len());
        assert_eq!(parts(&program.known()), 1);
        assert_eq!(parts(&System::default()), 64);
    }
}
