//! Put: a datum that is new is filled, not assigned to.
//!
//! # Law
//! No body is refused that could compile: where a name may mean something else than its slot (a `let`, a
//! pattern), nothing is said here.

use proc_macro2::{Ident, Spacing, TokenStream, TokenTree};
use syn::{Error, Result};

/// Refuses `*b = …` of a new `b`: the compiler would say no more than that a slot cannot be dereferenced.
pub fn expect_put(new: &Ident, body: &TokenStream) -> Result<()> {
    let mut uses = NameUses::default();
    uses.read(new, body.clone());
    match uses.assigned.filter(|_| !uses.other) {
        None => Ok(()),
        Some(assigned) => {
            let text = format!(
                "`{new}` is new, so there is no datum yet that `*{new}` could be: fill it by `{new}.put(…)`"
            );
            Err(Error::new(assigned.span(), text))
        }
    }
}

/// How a body uses a name.
#[derive(Default)]
struct NameUses {
    /// Where it is first assigned to, by `*name = …` or `*name += …`.
    assigned: Option<Ident>,
    /// Whether it stands elsewhere than in `*name` and `name.method(…)`: there it may be bound anew.
    other: bool,
}

impl NameUses {
    fn read(&mut self, name: &Ident, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.read(name, group.stream()),
                TokenTree::Ident(ident) if ident == name => {
                    let before = tokens[..at].last();
                    let behind = sign(&tokens[at + 1..]);
                    let is_dereferenced = before.is_some_and(is('*'));
                    let is_field = before.is_some_and(is('.'));
                    match is_dereferenced && assigns(&behind) {
                        true => self.assigned = self.assigned.take().or(Some(ident.clone())),
                        false if is_dereferenced || is_field || behind == "." => {}
                        false => self.other = true,
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

fn is(sign: char) -> impl Fn(&TokenTree) -> bool {
    move |token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

/// The sign of one or more letters that tokens begin with.
fn sign(tokens: &[TokenTree]) -> String {
    let mut sign = String::new();
    for token in tokens {
        let TokenTree::Punct(punct) = token else {
            break;
        };
        sign.push(punct.as_char());
        if punct.spacing() == Spacing::Alone {
            break;
        }
    }
    sign
}

/// Whether a sign is `=` or `+=` and the like; behind it, as in `=-1`, another may stand.
fn assigns(sign: &str) -> bool {
    let value = sign.trim_start_matches(['+', '-', '*', '/', '%', '&', '|', '^']);
    value.starts_with('=') && !value.starts_with("==") && !value.starts_with("=>")
}
