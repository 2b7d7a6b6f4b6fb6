//! Of single tasks: `priority` and `index`.

use super::analysed::Analysed;
use super::formula::Mentioned;
use crate::parse::{DenseClause, Statement};
use dataflow_affine::{Polynomial, count, position};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Error, Result};

impl Analysed<'_> {
    pub(super) fn priority(&self) -> Result<TokenStream> {
        let site = self.space.site;
        if self
            .lowered
            .statements
            .iter()
            .all(|statement| statement.priority.is_none())
        {
            return Ok(TokenStream::new());
        }
        let arms: Vec<TokenStream> = self
            .statements()
            .map(|(_, statement, _)| {
                let body = match &statement.priority {
                    Some(priority) => quote_spanned!(site=> i64::from(#priority)),
                    None => quote_spanned!(site=> 0),
                };
                let pattern = self.pattern(statement, &body);
                quote_spanned!(site=> #pattern => #body,)
            })
            .collect();
        let lets = self.lets(&arms.iter().cloned().collect());
        Ok(quote_spanned! {site=>
            #[allow(unused_variables)]
            #[inline(always)]
            fn priority(&self, task: Self::Task) -> i64 {
                #lets
                match task { #(#arms)* }
            }
        })
    }

    /// The parameters that are used, in a wider type.
    pub(super) fn wide_lets(&self, body: &TokenStream, wide: &str) -> TokenStream {
        let site = self.space.site;
        let wide = Ident::new(wide, site);
        let mentioned = Mentioned::of(body);
        let names = self
            .space
            .parameters
            .iter()
            .map(|parameter| &parameter.name);
        let used = names.filter(|name| mentioned.has(name));
        // Twice, so that another type than u32 is one error, the one of all other functions.
        let lets = self.lets(body);
        quote_spanned!(site=> #lets #(let #used = #wide::from(#used);)*)
    }

    /// A task's number: those of the statements before it, and its own in its nest.
    pub(super) fn index(&self) -> Result<TokenStream> {
        let site = self.space.site;
        let Some(DenseClause { keyword, condition }) = &self.space.dense else {
            return Ok(TokenStream::new());
        };
        let numbers = self.numbers(keyword)?;
        // What does not fit into 64 bits on the way is no number of a task that could be counted.
        let (name, width) = match numbers.iter().all(|(_, number)| number.is_sum()) {
            true => ("u64", 64),
            false => ("i64", 63),
        };
        let bits = numbers.iter().map(|(_, number)| number.safe_bits(width));
        let bits = bits.min().unwrap_or(0);
        let wide = Ident::new(name, site);
        let arms = numbers.iter().map(|of| self.numbered(of, &wide, bits));
        let arms: TokenStream = arms.collect();
        let lets = self.wide_lets(&arms, name);
        let asked = condition.as_ref().map(|condition| {
            let lets = self.lets(&quote!(#condition));
            // By a name: of `!(n < 4)` lints would say that it is `n >= 4`.
            quote_spanned! {site=>
                #lets
                let is_asked: bool = #condition;
                if !is_asked {
                    return ::core::option::Option::None;
                }
            }
        });
        Ok(quote_spanned! {site=>
            #[allow(unused_variables)]
            #[inline(always)]
            fn index(&self, task: Self::Task) -> ::core::option::Option<usize> {
                #asked
                let number: #wide = { #lets match task { #arms } };
                ::core::option::Option::Some(number as usize)
            }
        })
    }

    /// The number of a task of each statement as a formula; `keyword` asks for them.
    fn numbers(&self, keyword: &Ident) -> Result<Vec<(&Statement, Polynomial)>> {
        let program = &self.lowered.program;
        let mut before = Polynomial::default();
        let mut numbers = Vec::new();
        for (_, statement, derived) in self.statements() {
            let own = position(program, derived).ok().flatten();
            let all = count(program, derived).ok().flatten();
            let (Some(own), Some(all)) = (own, all) else {
                let text = format!(
                    "the tasks of `{}` have no number by formula: loops of a dense space are not left out \
                     by an `if`, and none ends before it begins, whatever the parameters (`0..n` and `1..=n` do \
                     not, `1..n` does where `n` is 0); leave `dense` away",
                    statement.name
                );
                return Err(Error::new(keyword.span(), text));
            };
            numbers.push((statement, before.and(&own)));
            before = before.and(&all);
        }
        Ok(numbers)
    }

    /// The arm of a statement: its number in so wide a type, if what it is made of fits into so many bits.
    fn numbered(
        &self,
        (statement, number): &(&Statement, Polynomial),
        wide: &Ident,
        bits: u32,
    ) -> TokenStream {
        let site = self.space.site;
        let body = self.polynomial(number);
        let parameters = self.space.parameters.iter().map(|p| &p.name);
        let names = Mentioned::of(&body);
        let mentioned = |name: &&Ident| names.has(name);
        let own: Vec<&Ident> = statement.parameters.iter().filter(mentioned).collect();
        let all: Vec<&Ident> = parameters
            .filter(mentioned)
            .chain(own.iter().copied())
            .collect();
        let shift = Literal::u32_unsuffixed(bits);
        let check = (bits < 32 && !all.is_empty()).then(|| {
            quote_spanned!(site=> if (#(#all)|*) >> #shift != 0 { return ::core::option::Option::None; })
        });
        let pattern = self.pattern(statement, &body);
        quote_spanned! {site=>
            #pattern => { #(let #own = #wide::from(#own);)* #check #body }
        }
    }
}
