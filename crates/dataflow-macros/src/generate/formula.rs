//! Expressions, guards and ranges as tokens, without a difference below 0: in u32, or in u64 where there
//! is a multiple or a sum of variables, which may be more than any task's parameter.

use super::analysed::Analysed;
use crate::lower::plain;
use crate::parse::{Family, Statement};
use dataflow_affine::{Affine, Comparison, Polynomial, Range, Said, Var};
use proc_macro2::{Ident, Literal, Spacing, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote_spanned};
use std::collections::HashMap;

/// The names that occur in a piece of Rust: read once, since a compiler hands out tokens one by one.
#[derive(Default)]
pub(crate) struct Mentioned {
    /// Each as it stands first.
    names: HashMap<String, Ident>,
    /// Strings, raw ones too, in which names may be formatted.
    texts: Vec<String>,
}

impl Mentioned {
    pub fn of(tokens: &TokenStream) -> Self {
        let mut found = Mentioned::default();
        found.read(tokens.clone());
        found
    }

    fn read(&mut self, tokens: TokenStream) {
        let mut dots = 0; // one before a field, two in a range
        for token in tokens {
            let before = std::mem::take(&mut dots);
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '.' => dots = before + 1,
                TokenTree::Punct(_) => {}
                TokenTree::Ident(_) if before == 1 => {}
                TokenTree::Ident(name) => {
                    self.names.entry(name.to_string()).or_insert(name);
                }
                TokenTree::Group(group) => self.read(group.stream()),
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    let is_text = text.starts_with(['"', 'r']);
                    self.texts.extend(is_text.then_some(text));
                }
            }
        }
    }

    /// Whether a name occurs, as a token or inside of a string that is formatted.
    pub fn has(&self, name: &Ident) -> bool {
        self.find(name).is_some() || {
            let name = plain(name);
            self.texts.iter().any(|text| formats(text, &name))
        }
    }

    /// Whether no other names than these occur.
    pub fn are_among(&self, names: &[&Ident]) -> bool {
        let mut own = self.names.keys();
        own.all(|name| names.iter().any(|other| *other == name)) && self.texts.is_empty()
    }

    /// Where a name occurs first as a token.
    pub fn find(&self, name: &Ident) -> Option<&Ident> {
        self.names.get(&name.to_string())
    }
}

/// Whether a string, if it is formatted, shows a name, as in `{k}`, or is laid out by it, as in `{k:>nt$}`.
fn formats(text: &str, name: &str) -> bool {
    let continues = |letter: &char| letter.is_alphanumeric() || *letter == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        let is_shown = before == Some('{') && !after.as_ref().is_some_and(continues);
        let lays_out = after == Some('$') && !before.as_ref().is_some_and(continues);
        is_shown || lays_out
    })
}

/// Where an expression uses a name, unless it gives the name a meaning of its own.
pub(crate) fn used(e: &TokenStream, name: &Ident) -> Option<Ident> {
    let mentioned = Mentioned::of(e);
    mentioned.find(name).filter(|_| !binds(e, name)).cloned()
}

/// Whether a name stands in a pattern: of `let`, of a loop, between the bars of a closure, or of an arm of
/// `match`.
fn binds(e: &TokenStream, name: &Ident) -> bool {
    if arm_binds(e, name) {
        return true;
    }
    let mut pattern = Pattern::None;
    let mut before = None; // what a bar behind it means
    e.clone().into_iter().any(|token| {
        let is_operand = before.as_ref().is_some_and(is_operand);
        match (&token, &pattern) {
            (TokenTree::Group(group), Pattern::None) => {
                let binds = binds(&group.stream(), name);
                before = Some(token);
                return binds;
            }
            (TokenTree::Ident(word), Pattern::None) if word == "let" || word == "for" => {
                pattern = Pattern::Words;
            }
            (TokenTree::Ident(word), Pattern::Words) if word == "in" => pattern = Pattern::None,
            (TokenTree::Punct(sign), Pattern::Words) if sign.as_char() == '=' => {
                pattern = Pattern::None;
            }
            (TokenTree::Punct(sign), Pattern::Bars) if sign.as_char() == '|' => {
                pattern = Pattern::None;
            }
            // Behind an operand a bar is the operator `|`, or the first one of `||`.
            (TokenTree::Punct(sign), Pattern::None) if sign.as_char() == '|' && is_operand => {
                if sign.spacing() == Spacing::Alone {
                    before = Some(token);
                }
                return false;
            }
            (TokenTree::Punct(sign), Pattern::None) if sign.as_char() == '|' => {
                pattern = Pattern::Bars;
            }
            _ => {}
        }
        before = Some(token.clone());
        !matches!(pattern, Pattern::None) && Mentioned::of(&token.into()).find(name).is_some()
    })
}

/// Whether a name stands between the beginning of an arm and `=>`, but for a guard.
fn arm_binds(e: &TokenStream, name: &Ident) -> bool {
    let is = |token: Option<&TokenTree>, sign: char| match token {
        Some(TokenTree::Punct(punct)) => punct.as_char() == sign,
        _ => false,
    };
    let mut pattern = Vec::new();
    let mut is_behind_arrow = false;
    for token in e.clone() {
        let is_body = std::mem::take(&mut is_behind_arrow) && matches!(token, TokenTree::Group(_));
        if is(Some(&token), '>') && is(pattern.last(), '=') {
            let is_guard =
                |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word == "if");
            let bound = pattern.drain(..).take_while(|token| !is_guard(token));
            if Mentioned::of(&bound.collect()).find(name).is_some() {
                return true;
            }
            is_behind_arrow = true;
        } else if is(Some(&token), ',') || is_body {
            pattern.clear();
        } else {
            pattern.push(token);
        }
    }
    false
}

/// Words before a bar that begins a closure.
const NO_OPERANDS: [&str; 10] = [
    "async", "break", "else", "if", "in", "match", "move", "mut", "return", "while",
];

/// What stands before a bar that is an operator.
fn is_operand(token: &TokenTree) -> bool {
    match token {
        TokenTree::Ident(word) => !NO_OPERANDS.iter().any(|keyword| word == keyword),
        TokenTree::Literal(_) | TokenTree::Group(_) => true,
        TokenTree::Punct(sign) => sign.as_char() == '?',
    }
}

/// A name as it is written, with the mark of one that is a word of Rust.
pub(crate) fn spelled(name: &str, site: Span) -> Ident {
    match syn::parse_str::<Ident>(name) {
        Ok(_) => Ident::new(name, site),
        Err(_) => Ident::new_raw(name, site),
    }
}

/// In which pattern a token stands.
enum Pattern {
    None,
    /// From `let` to `=`, from `for` to `in`.
    Words,
    /// Between the bars of a closure.
    Bars,
}

/// Parts with a sign between them.
fn joined(parts: Vec<TokenStream>, sign: TokenStream) -> TokenStream {
    let with_sign = |(at, part): (usize, TokenStream)| match at {
        0 => part,
        _ => sign.clone().into_iter().chain(part).collect(),
    };
    parts.into_iter().enumerate().flat_map(with_sign).collect()
}

impl Analysed<'_> {
    /// A variable as the user wrote it.
    pub(crate) fn name(&self, var: Var) -> Ident {
        let written = self.lowered.loops.iter().chain(&self.lowered.parameters);
        let mut found = written
            .filter(|(own, _)| *own == var)
            .map(|(_, name)| name.clone());
        let made = || spelled(self.lowered.program.name(var), self.space.site);
        found.next().unwrap_or_else(made)
    }

    /// Whether parts of a sum may be more than fits into u32 though no variable is. The next number after
    /// the value of a loop's variable fits, that after a parameter may not.
    fn is_wide(&self, e: &Affine) -> bool {
        self.is_large(e, 1) || self.is_large(e, -1)
    }

    /// The same of what is added only, or with the sign -1 of what is subtracted.
    fn is_large(&self, e: &Affine, sign: i64) -> bool {
        let terms = e.terms().iter();
        let terms = terms.map(|&(var, c)| (var, c.saturating_mul(sign)));
        let added: Vec<_> = terms.filter(|term| term.1 > 0).collect();
        match (&added[..], e.constant().saturating_mul(sign)) {
            ([], constant) => constant > u32::MAX.into(),
            ([(_, 1)], ..=0) => false,
            ([(var, 1)], 1) => self.is_parameter(*var),
            _ => true,
        }
    }

    fn is_parameter(&self, var: Var) -> bool {
        let mut parameters = self.lowered.parameters.iter();
        parameters.any(|(own, _)| *own == var)
    }

    /// An expression whose value is a task's parameter or a subscript, as u32.
    pub(crate) fn affine(&self, e: &Affine, name: &dyn Fn(Var) -> Ident) -> TokenStream {
        // What is subtracted is no more than what is added, unless a factor of 0 is.
        let mut numbers = e.terms().iter().map(|term| term.1).chain([e.constant()]);
        let is_literal_wide = numbers.any(|c| c.unsigned_abs() > u32::MAX.into());
        match self.is_large(e, 1) || is_literal_wide {
            true => {
                let sum = self.affine_in(true, e, name);
                quote_spanned!(self.space.site=> (#sum) as u32)
            }
            false => self.affine_in(false, e, name),
        }
    }

    /// An expression, in u64 if it is `wide`: what is added first, so that nothing falls below 0 on the way.
    fn affine_in(&self, wide: bool, e: &Affine, name: &dyn Fn(Var) -> Ident) -> TokenStream {
        let (plus, minus) = self.sides(wide, e, name);
        match minus.is_empty() {
            true => plus,
            false => {
                let minus = joined(minus, quote_spanned!(self.space.site=> -));
                quote_spanned!(self.space.site=> #plus - #minus)
            }
        }
    }

    /// The sum of what is added, and what is subtracted from it.
    fn sides(
        &self,
        wide: bool,
        e: &Affine,
        name: &dyn Fn(Var) -> Ident,
    ) -> (TokenStream, Vec<TokenStream>) {
        let site = self.space.site;
        let number = |n: i64| Literal::u64_unsuffixed(n.unsigned_abs());
        let term = |&(var, c): &(Var, i64)| {
            let (name, c) = (name(var), c.abs());
            let value = match wide {
                true => quote_spanned!(site=> u64::from(#name)),
                false => quote_spanned!(site=> #name),
            };
            match c {
                1 => value,
                _ => {
                    let factor = number(c);
                    quote_spanned!(site=> #factor * #value)
                }
            }
        };
        let mut plus: Vec<_> = e.terms().iter().filter(|t| t.1 > 0).map(term).collect();
        let mut minus: Vec<_> = e.terms().iter().filter(|t| t.1 < 0).map(term).collect();
        let constant = number(e.constant());
        match e.constant() {
            ..0 => minus.push(quote_spanned!(site=> #constant)),
            1.. => plus.push(quote_spanned!(site=> #constant)),
            0 if plus.is_empty() => plus.push(quote_spanned!(site=> #constant)),
            0 => {}
        }
        if plus.is_empty() {
            plus.push(quote_spanned!(site=> 0));
        }
        (joined(plus, quote_spanned!(site=> +)), minus)
    }

    /// A bound of a range, 0 where it would be negative.
    fn bound(&self, wide: bool, e: &Affine, name: &dyn Fn(Var) -> Ident) -> TokenStream {
        let site = self.space.site;
        let (plus, minus) = self.sides(wide, e, name);
        if minus.is_empty() {
            return plus;
        }
        let n_plus = e.terms().iter().filter(|t| t.1 > 0).count() + usize::from(e.constant() > 0);
        let minus = joined(minus, quote_spanned!(site=> +));
        match e.terms().iter().any(|t| t.1 == 1) && n_plus == 1 {
            true => quote_spanned!(site=> #plus.saturating_sub(#minus)),
            false if wide => quote_spanned!(site=> u64::saturating_sub(#plus, #minus)),
            false => quote_spanned!(site=> u32::saturating_sub(#plus, #minus)),
        }
    }

    /// `k + 1..nt`.
    pub(crate) fn range(&self, range: &Range, name: &dyn Fn(Var) -> Ident) -> TokenStream {
        let site = self.space.site;
        let upper: Vec<Affine> = range.upper.iter().map(|e| e.clone() + 1).collect();
        let wide = range.lower.iter().chain(&upper).any(|e| self.is_wide(e));
        let unsigned = format_ident!("{}", if wide { "u64" } else { "u32" }, span = site);
        let ends = |bounds: &[Affine], pick: &str| {
            let pick = format_ident!("{pick}", span = site);
            let bounds = bounds.iter().map(|e| self.bound(wide, e, name));
            let all = bounds.reduce(|a, b| quote_spanned!(site=> #unsigned::#pick(#a, #b)));
            all.unwrap_or_default()
        };
        let (lower, upper) = (ends(&range.lower, "max"), ends(&upper, "min"));
        let root = &self.space.root;
        match wide {
            true => quote_spanned!(site=> #root::space::narrow(#lower..#upper)),
            false => quote_spanned!(site=> #lower..#upper),
        }
    }

    /// `k == 0 && m > k + 1`; `None` if nothing is asked.
    pub(crate) fn guard(&self, said: &[Said], name: &dyn Fn(Var) -> Ident) -> Option<TokenStream> {
        let site = self.space.site;
        let one = |said: &Said| {
            let sides = [&said.left, &said.right];
            let wide = sides.into_iter().any(|side| self.is_wide(side));
            let [left, right] = sides.map(|side| self.affine_in(wide, side, name));
            match said.comparison {
                Comparison::Equal => quote_spanned!(site=> #left == #right),
                Comparison::Less => quote_spanned!(site=> #left < #right),
                Comparison::AtMost => quote_spanned!(site=> #left <= #right),
                Comparison::Greater => quote_spanned!(site=> #left > #right),
                Comparison::AtLeast => quote_spanned!(site=> #left >= #right),
            }
        };
        let parts: Vec<TokenStream> = said.iter().map(one).collect();
        (!parts.is_empty()).then(|| joined(parts, quote_spanned!(site=> &&)))
    }

    /// A polynomial, over variables of a type in which nothing overflows.
    pub(crate) fn polynomial(&self, polynomial: &Polynomial) -> TokenStream {
        let site = self.space.site;
        let terms = polynomial.terms().map(|(c, powers)| (c, powers.to_vec()));
        let sum = self.nested(terms.collect());
        match polynomial.divisor() {
            1 => sum,
            divisor => {
                let divisor = Literal::i128_unsuffixed(divisor);
                quote_spanned!(site=> (#sum) / #divisor)
            }
        }
    }

    /// A sum of products with as few products as Horner's rule leaves.
    fn nested(&self, terms: Vec<Term>) -> TokenStream {
        let site = self.space.site;
        let vars = terms
            .iter()
            .flat_map(|(_, powers)| powers.iter().map(|p| p.0));
        let uses = |var: Var| terms.iter().filter(|t| power_of(t, var) > 0).count();
        let mut best = None;
        for var in vars {
            if uses(var) > best.map_or(1, uses) {
                best = Some(var);
            }
        }
        let Some(var) = best else {
            return self.sum(terms);
        };
        let (with, rest): (Vec<Term>, Vec<Term>) =
            terms.into_iter().partition(|t| power_of(t, var) > 0);
        let divided = with.into_iter().map(|(c, powers)| {
            let less = powers
                .into_iter()
                .map(|(v, p)| (v, p - u32::from(v == var)));
            (c, less.filter(|p| p.1 > 0).collect())
        });
        let (name, inner) = (self.name(var), self.nested(divided.collect()));
        let product = quote_spanned!(site=> #name * (#inner));
        match rest.is_empty() {
            true => product,
            false => {
                let rest = self.nested(rest);
                quote_spanned!(site=> #product + #rest)
            }
        }
    }

    /// A sum of products as it stands, what is subtracted last.
    fn sum(&self, mut terms: Vec<Term>) -> TokenStream {
        let site = self.space.site;
        terms.sort_by_key(|(c, _)| *c < 0);
        let mut sum = TokenStream::new();
        for (c, powers) in terms {
            let mut factors = Vec::new();
            if c.abs() != 1 || powers.is_empty() {
                let literal = Literal::i128_unsuffixed(c.abs());
                factors.push(quote_spanned!(site=> #literal));
            }
            for (var, power) in powers {
                let name = self.name(var);
                factors.extend((0..power).map(|_| quote_spanned!(site=> #name)));
            }
            let term = joined(factors, quote_spanned!(site=> *));
            sum = match (sum.is_empty(), c < 0) {
                (true, false) => term,
                (true, true) => quote_spanned!(site=> -(#term)),
                (false, false) => quote_spanned!(site=> #sum + #term),
                (false, true) => quote_spanned!(site=> #sum - #term),
            };
        }
        match sum.is_empty() {
            true => quote_spanned!(site=> 0),
            false => sum,
        }
    }

    /// `let nt = self.nt;` for each parameter that is used, in `body` or in the value of one that is.
    pub fn lets(&self, body: &TokenStream) -> TokenStream {
        let mut used = vec![Mentioned::of(body)];
        let mut lets = Vec::new();
        for parameter in self.space.parameters.iter().rev() {
            let (name, value) = (&parameter.name, &parameter.value);
            if used.iter().any(|mentioned| mentioned.has(name)) {
                used.push(Mentioned::of(&value.to_token_stream()));
                // A name that the user binds again is used in vain.
                lets.push(quote_spanned! {self.space.site=>
                    #[allow(unused_variables)]
                    let #name: u32 = #value;
                });
            }
        }
        lets.into_iter().rev().collect()
    }

    /// `Task::Gemm { m, k, .. }`: a pattern of what a body uses. A name that is only the label of a field
    /// there, or that the body itself binds, is bound in vain, which derived functions allow.
    pub fn pattern(&self, statement: &Statement, body: &TokenStream) -> TokenStream {
        let (task, name) = (&self.space.task, &statement.name);
        let mentioned = Mentioned::of(body);
        let used: Vec<&Ident> = statement
            .parameters
            .iter()
            .filter(|p| mentioned.has(p))
            .collect();
        let rest = match used.len() == statement.parameters.len() {
            true => TokenStream::new(),
            false if used.is_empty() => quote_spanned!(self.space.site=> ..),
            false => quote_spanned!(self.space.site=> , ..),
        };
        quote_spanned!(self.space.site=> #task::#name { #(#used),* #rest })
    }

    /// What an expression of a family's subscripts is for these ones.
    pub fn of_datum(
        &self,
        family: &Family,
        subscripts: &[Affine],
        expression: TokenStream,
    ) -> TokenStream {
        let site = self.space.site;
        let mentioned = Mentioned::of(&expression);
        let values = subscripts
            .iter()
            .map(|e| self.affine(e, &|var| self.name(var)));
        let (names, values): (Vec<&Ident>, Vec<TokenStream>) = family
            .subscripts
            .iter()
            .zip(values)
            .filter(|(name, value)| mentioned.has(name) && value.to_string() != name.to_string())
            .unzip();
        match (&names[..], &values[..]) {
            ([], []) => expression,
            ([name], [value]) => quote_spanned!(site=> { let #name = #value; #expression }),
            _ => quote_spanned!(site=> { let (#(#names),*) = (#(#values),*); #expression }),
        }
    }
}

/// A coefficient, and variables with their powers.
type Term = (i128, Vec<(Var, u32)>);

fn power_of(term: &Term, var: Var) -> u32 {
    let found = term.1.iter().find(|p| p.0 == var);
    found.map_or(0, |p| p.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each bar began or ended a pattern, and behind `|` as an operator every name was one of its own.
    #[test]
    fn a_name_is_bound_between_the_bars_of_a_closure_and_not_behind_an_operator() {
        let name = format_ident!("i");
        for (expression, is_bound) in [
            ("(j | i)", false),
            ("j | i", false),
            ("j || i", false),
            ("f(j)? | i", false),
            ("f(|i| i + j)", true),
            ("f(j | k, |i| i)", true),
            ("f(move |i: u32| i)", true),
            ("f(&mut |i| i)", true),
            ("match |i| i {}", true),
            ("f(|| i)", false),
            ("f(j || k, |i| i)", true),
            ("{ let (i, k) = at(j); i }", true),
            ("{ let (k | l) = at(j); i }", false),
            ("{ for i in 0..j {} i }", true),
            ("{ for k in i..j {} k }", false),
            ("match j { Some(i) => i, None => 0 }", true),
            ("match i { Some(k) => k, None => 0 }", false),
            ("match j { 0 => i, k if k > i => k, _ => i + 1 }", false),
            ("match j { 0 => {} i => i }", true),
            ("match j { 0 => { i } k => k }", false),
            ("f(match j { At { k, i } => k, _ => 0 })", true),
        ] {
            let tokens = expression.parse().expect("Rust");
            assert_eq!(binds(&tokens, &name), is_bound, "{expression}");
        }
    }

    #[test]
    fn a_name_is_found_in_every_string_that_shows_it_or_is_laid_out_by_it() {
        let name = format_ident!("k");
        for (body, is_there) in [
            (r##"println!("{k}")"##, true),
            (r##"println!("{k:>3}")"##, true),
            (r##"println!(r"{k}\d")"##, true),
            (r###"println!(r#""{k}""#)"###, true),
            (r##"println!("{x:>k$}")"##, true),
            (r##"println!("{x:.k$}")"##, true),
            (r##"println!("k {kk} {x:>kk$}")"##, false),
            (r##"println!(r"k {nk} {x:>nk$}")"##, false),
        ] {
            let tokens = body.parse().expect("Rust");
            assert_eq!(Mentioned::of(&tokens).has(&name), is_there, "{body}");
        }
    }
}
