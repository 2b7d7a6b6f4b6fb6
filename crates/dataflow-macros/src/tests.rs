//! Each fault is said at the user's own words, with what to write instead; and what is made can be read.

use crate::{expand, parse::Space};
use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use std::path::Path;
use std::time::{Duration, Instant};

/// A space over A (n × n, with a store), T (without one) and H (that only orders), with these loops.
fn space(loops: &str) -> String {
    format!(
        "crate enum Task; impl TaskSpace for Test {{ type Datum = D; let n = self.n; let m = self.m;
        data A[i, j] where i < n && j < n in self.a at i * n + j; data T[i]; order H[i]; {loops} }}"
    )
}

/// The faults of a space: where, and what is said.
fn faults(text: &str) -> Vec<(String, String)> {
    let error = match syn::parse_str::<Space>(text).and_then(|space| expand(&space)) {
        Err(error) => error,
        Ok(tokens) => panic!("nothing is wrong with\n{text}\nwhich is\n{tokens}"),
    };
    let place = |error: &syn::Error| error.span().source_text().unwrap_or_default();
    error
        .into_iter()
        .map(|e| (place(&e), e.to_string()))
        .collect()
}

/// Loops, the words that are wrong, and what is said.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "for i in 0..n { for j in 0..n { S { i, j }: update a = A[i * j, j] => {} } }",
        "i * j",
        "this subscript is not affine: `i * j` multiplies two variables; it is a sum of variables and \
         parameters, each times an integer, and of an integer",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i % 2, i] => {} }",
        "i % 2",
        "this subscript is not affine: `i % 2` divides; if it is the same for all tasks, name it as a parameter \
         of the space, `let half = n / 2;`, otherwise write a loop over the quotient, and for each remainder a \
         statement or an array of its own",
    ),
    (
        "for i in 0..n / 2 { S { i }: update a = A[i, i] => {} }",
        "n / 2",
        "this bound is not affine: `n / 2` divides; if it is the same for all tasks, name it as a parameter \
         of the space, `let half = n / 2;`, otherwise write a loop over the quotient, and for each remainder a \
         statement or an array of its own",
    ),
    (
        "for i in 0..n as usize { S { i }: update a = A[i, i] => {} }",
        "n as usize",
        "this bound is not affine: `n as usize` casts; no cast is needed, for the numbers in loops, conditions \
         and subscripts are of one type",
    ),
    // The compiler said that an identifier is bound twice, and that the datum has no method `read`.
    (
        "for i in 0..n { S { i }: read a = A[i, i], new a = T[i] => {} }",
        "a",
        "`S` has two data called `a`: each of its accesses has a name of its own",
    ),
    // The second one was taken.
    (
        "for i in 0..n { S { i }: update a = A[i, i], priority 1, priority 2 => {} }",
        "priority",
        "`S` says `priority` twice: say it once",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i, i], on i % n, on i % m => {} }",
        "on",
        "`S` says `on` twice: say it once",
    ),
    (
        "data P[i] on i % n; for i in 0..n { S { i }: new p = P[i] => {} R { i }: read p = P[i] => {} }",
        "R",
        "it is not said where `R` runs: it writes no datum by which it could be placed; say `on RANK` among its \
         accesses",
    ),
    (
        "for i in 0..n { S { i }: update a = A[self.row(i), i] => {} }",
        "self.row(i)",
        "this subscript is not affine: `self . row (i)` calls or looks something up; name it as a parameter \
         of the space, `let n = …;`, if it is the same for all tasks",
    ),
    (
        "for i in 0..self.n { S { i }: update a = A[i, i] => {} }",
        "self.n",
        "this bound is not affine: `self . n` calls or looks something up; name it as a parameter of the \
         space, `let n = …;`, if it is the same for all tasks",
    ),
    (
        "for i in 0.. { S { i }: update a = A[i, i] => {} }",
        "0..",
        "a loop needs both bounds: the tasks of a space are finite in number",
    ),
    (
        "for i in rows { S { i }: update a = A[i, i] => {} }",
        "rows",
        "the bounds of a loop are a range, `a..b` or `a..=b`, or `(a..b).rev()`",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i, x] => {} }",
        "x",
        "`x` is neither a parameter of the space (`let x = self.x;`) nor the variable of a loop around",
    ),
    (
        "for i in 0..n { if i { S { i }: update a = A[i, i] => {} } }",
        "i",
        "a condition compares affine expressions: `m > k + 1 && n != k`",
    ),
    (
        "for i in 0..n { for j in 0..n { S { i, j }: update a = A[i, j], update b = A[j, i] => {} } }",
        "A[j, i]",
        "`S` writes `A[j, i]` twice: as `A[i, j]` too. A task has one flow for each datum that it writes: \
         access it once, or say by `if` that these are two data",
    ),
    (
        "for i in 0..n { for j in 0..n { S { i, j }: update a = A[i, j], read d = A[i, i] => {} } }",
        "A[i, i]",
        "`S` accesses `A[i, i]` and `A[i, j]`, which are one datum where j == i, and writes it: a task \
         accesses a datum once; exclude this by `if`, or `update` it only",
    ),
    // What the loops say already may be said again.
    (
        "for k in 0..n { D { k }: update c = A[k, k] => {} for j in k + 1..n { if j != k { R { k, j }: read d \
         = A[k, k] => {} } } }",
        "",
        "",
    ),
    (
        "for i in 0..n { S { i }: read t = T[i], update a = A[i, i] => {} }",
        "T[i]",
        "`T[i]` is not written by any task before `S` reads it, and it has no store: write it earlier \
         (`new`), read it as `optional`, or say where it is (`data … in STORE at SLOT`)",
    ),
    (
        "for i in 0..n { S { i }: read t = T[i - 1], new s = T[i] => {} }",
        "T[i - 1]",
        "`T[i - 1]` is not written by any task before `S` reads it where i == 0, and it has no store: write \
         it earlier (`new`), read it as `optional`, or say where it is (`data … in STORE at SLOT`)",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i, i + 1] => {} }",
        "A[i, i + 1]",
        "`A[i, i + 1]` lies outside of its data where i + 1 == n: narrow the bounds of the loop, or put an \
         `if` around `S`",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i, i], read b = A[i - 1, i] => {} }",
        "A[i - 1, i]",
        "`A[i - 1, i]` lies outside of its data where i == 0: narrow the bounds of the loop, or put an `if` \
         around `S`",
    ),
    // It was told as of any other access, as if `optional` meant nothing.
    (
        "for i in 0..n { S { i }: optional b = A[i - 1, i], new c = A[i, i] => {} }",
        "A[i - 1, i]",
        "`A[i - 1, i]` lies outside of its data where i == 0, and `optional` reaches no further than \
         these: narrow the bounds of the loop, or put an `if` around `S`",
    ),
    (
        "for i in 0..m { for j in 0..m { S { i, j }: new t = T[2 * i + 3 * j] => {} } }
         for i in 0..m { R { i }: optional t = T[i] => {} }",
        "T[i]",
        "hold `j` with factors other than 1 and -1, so that bounds could be fractions. Loop to the quotient, a \
         parameter `let half = self.n / 2;`, or give each remainder an array of its own",
    ),
    // A bound of tasks, which is no bound of edges.
    (
        "for i in 0..n { if 2 * i + 1 < n { S { i }: new t = T[i] => {} } }",
        "S",
        "the loops and conditions around `S` have no exact formula: `n - 2 * i - 2 >= 0` holds `i` with factors \
         other than 1 and -1, so that bounds could be fractions. Loop to the quotient, a parameter `let half = \
         self.n / 2;`, or give each remainder an array of its own",
    ),
    (
        "let half = self.n / 2; data B[i] where i < 2 * half in self.b at i; for h in 0..half {
         S { h }: update even = B[2 * h], update odd = B[2 * h + 1] => {} }",
        "",
        "",
    ),
    (
        "for i in 1..n { S { i }: update a = A[i, i], read b = A[i - 1, i - 1] => {} }",
        "",
        "",
    ),
    (
        "for i in 0..n { if i + 1 < n { S { i }: update a = A[i, i], read b = A[i + 1, i + 1] => {} } }",
        "A[i + 1, i + 1]",
        "`S` reads `A[i + 1, i + 1]` from its store, while `S` changes it there (`A[i, i]`): let a task take \
         it first and hand it to both, in loops of its own before these, `Take { i, j }: update A[i, j];`",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i, i] => {} } for i in 0..n { R { i }: new b = A[i, i] => {} }",
        "A[i, i]",
        "`S` takes `A[i, i]` from its store, and `R` puts a new one there (`new A[i, i]`), so that the first \
         one would be lost: let `R` update it, or make it new here too",
    ),
    (
        "for i in 0..n { S { i }: give a = A[i, i] => {} } for i in 0..n { R { i }: update b = A[i, i] => {} }",
        "A[i, i]",
        "`S` gives `A[i, i]`, which stays as it is in its store, and `R` changes it (`A[i, i]`): say `update` \
         for `give`",
    ),
    (
        "for i in 0..n { for k in i - 1..n { S { i, k }: new t = T[k + n * 0] => {} } }",
        "S",
        "`k` may be negative here, and the parameters of a task are not: begin the loop at 0, and subtract \
         in the subscripts, or put the loop into `if i > 0 { … }`",
    ),
    (
        "for i in n - 2..n { S { i }: new t = T[i] => {} }",
        "S",
        "subtract in the subscripts, or put the loop into `if n > 1 { … }`",
    ),
    (
        "for i in 0..Self::N { S { i }: new t = T[i] => {} }",
        "Self::N",
        "`Self::N` is looked up: name it as a parameter of the space, `let n = Self::N;`",
    ),
    (
        "for i in 0..n.min(m + 1) { S { i }: new t = T[i] => {} }",
        "n.min(m + 1)",
        "this bound is not affine: `n . min (m + 1)` takes one of two; write one of them, and the other one as \
         a condition in the loop, `if m <= k + b { … }`",
    ),
    (
        "for i in (0..n).step_by(2) { S { i }: new t = T[i] => {} }",
        "(0..n).step_by(2)",
        "a loop takes every value of its range: loop to the quotient, a parameter `let half = \
         n.div_ceil(2);`, and write the multiple where it is meant, `for h in 0..half { … A[2 * h] … }`",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i, i], order done, order done => {} }",
        "done",
        "there are two flows `S.done`: each class of tasks, and each flow of a class, has a name of its own",
    ),
    // The class and the flow were read from one word: `S.x_done`.
    (
        "for i in 0..n { S_x { i }: update a = A[i, i], order done, order done => {} }",
        "done",
        "there are two flows `S_x.done`: each class of tasks, and each flow of a class, has a name of its own",
    ),
    (
        "data S_done[i]; for i in 0..n { S { i }: new d = S_done[i], order done, order x_done => {} }
         for i in 0..n { S_x { i }: read d = S_done[i], order done => {} }",
        "",
        "",
    ),
    (
        "data B[j] in self.b at match self.at(j) { Some(i) => i, None => 0 };
         for i in 0..n { S { i }: update b = B[i] => {} }",
        "",
        "",
    ),
    (
        "let p = self.p; for i in 0..p { for j in 0..p {
         if i > m || (i >= 4294967296 * j && n >= 4294967296 * i && n <= m && m <= j && j > 0) {
         S { i, j }: new t = T[i] => {} } } }",
        "i > m || (i >= 4294967296 * j && n >= 4294967296 * i && n <= m && m <= j && j > 0)",
        "this condition has no exact parts: its numbers are too large; use smaller factors",
    ),
    (
        "let p = self.p; let q = self.q; let r = self.r; let s = self.s; for i in 0..n {
         if i == p || i == q || i == r || i == s || i == n - p || i == n - q || i == n - r {
         S { i }: update a = A[i, i] => {} } }",
        "i == p || i == q || i == r || i == s || i == n - p || i == n - q || i == n - r",
        "this condition holds in too many parts (at most 64): each `!=` doubles them, and so does each `||` of \
         what may hold at once. Say by the loops' bounds what it says, or make statements of its parts",
    ),
    (
        "let p = self.p; let q = self.q; let r = self.r; let s = self.s; for i in 0..n {
         if i != p && i != q && i != r && i != s && i != n - p && i != n - q && i != n - r {
         S { i }: update a = A[i, i] => {} } }",
        "i != p && i != q && i != r && i != s && i != n - p && i != n - q && i != n - r",
        "this condition holds in too many parts (at most 64): each `!=` doubles them, and so does each `||` of \
         what may hold at once. Say by the loops' bounds what it says, or make statements of its parts",
    ),
    (
        "let p = self.p; let q = self.q; let r = self.r; let s = self.s; for i in 0..n {
         if i != p && i != q && i != r { if i != s && i != n - p && i != n - q && i != n - r {
         S { i }: update a = A[i, i] => {} } } }",
        "S",
        "the conditions of `S` hold in too many parts (at most 64): each `!=` of unrelated numbers doubles them, \
         and so does each `||`. Say by the loops' bounds what they say, or make statements of its parts",
    ),
    (
        "for i in 0..n { S { i }: update t = T[i] => {} }",
        "T[i]",
        "`T[i]` is not written by any task before `S` changes it, and it has no store: write it earlier \
         (`new`), or say where it is (`data … in STORE at SLOT`)",
    ),
    (
        "for i in 0..n { S { i }: give t = T[i] => {} }",
        "T[i]",
        "`T[i]` is not written by any task before `S` gives it, and it has no store: write it earlier (`new`), \
         or say where it is (`data … in STORE at SLOT`)",
    ),
    // A condition that is no single conjunction says that it is not.
    (
        "for i in 0..n { for k in i - 1..n { if k >= 0 && k != i { S { i, k }: new t = T[k] => {} } } }",
        "",
        "",
    ),
    (
        "fn describe(&self, about: &mut Description) { self.tell(about) }
         for i in 0..n { S { i }: new t = T[i] => {} }",
        "",
        "",
    ),
    (
        "for i in 0..n { for j in 0..n { S { i }: update a = A[i, j] => {} } }",
        "S",
        "the parameters of a task are the variables of the loops around it, each once, in any order: \
         `S { i, j }`",
    ),
    // Numbers that are derived from such ones did not fit: the derivation panicked, or was of others.
    (
        "for i in 0..n { S { i }: new t = T[i + 9223372036854775807] => {} }",
        "9223372036854775807",
        "the numbers of this subscript are too large: `9223372036854775807` (4294967296 is the most)",
    ),
    (
        "for i in 0..n { S { i }: new t = T[(i + 3) * 3000000000] => {} }",
        "(i + 3) * 3000000000",
        "the numbers of this subscript are too large: `(i + 3) * 3000000000` (4294967296 is the most)",
    ),
    (
        "for i in 0..n { S { i }: new t = T[i + 4294967296] => {} }",
        "",
        "",
    ),
    // The product of both factors wrapped around to 0.
    (
        "for j in 0..n { for i in 0..n { if i >= 4294967296 * j && n >= 4294967296 * i {
         S { j, i }: new t = T[i] => {} } } }",
        "S",
        "the loops and conditions around `S` have no exact formula: its numbers are too large; use smaller \
         factors",
    ),
    (
        "for i in 0..n { S { i }: update a = B[i] => {} }",
        "B",
        "no data are called `B`: declare them, `data B[i] …;`",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i] => {} }",
        "A[i]",
        "`A` has 2 subscripts, this one 1",
    ),
    (
        "for i in 0..n { S { i }: new t = T[i, i] => {} }",
        "T[i, i]",
        "`T` has 1 subscript, this one 2",
    ),
    // It was told that a `;` is missing.
    (
        "for i in 0..n { for j in 0..n { S { i, j }: update a = A[i][j] => {} } }",
        "[i]",
        "the subscripts of a datum stand in one pair of brackets: `A[i, j]`",
    ),
    (
        "data B[i][j] in self.b at i * n + j; for i in 0..n { S { i }: update b = B[i, 0] => {} }",
        "[i]",
        "the subscripts of a datum stand in one pair of brackets: `B[i, j]`",
    ),
    (
        "for i in 0..n { let j = i + 1; S { i }: new t = T[j] => {} }",
        "let",
        "a parameter is named outside of the loops, `let nt = self.nt;`, and is the same for all tasks; what \
         depends on the variable of a loop is written where it is used",
    ),
    (
        "for i in 0..n { S { i }: write a = A[i, i] => {} }",
        "write",
        "`write` is no access (`write` of sequences is `update` here, or `new` where nothing was before): a \
         task can `read`, `update`, make `new`, `give` or read `optional` data, be in an `order`, be placed \
         `on` a rank and have a `priority`",
    ),
    (
        "for i in 0..n { S { i }: inout a = A[i, i] => {} }",
        "inout",
        "`inout` is no access (it is `update` here): a \
         task can `read`, `update`, make `new`, `give` or read `optional` data, be in an `order`, be placed \
         `on` a rank and have a `priority`",
    ),
    (
        "for i in 0..n { S { i }: out a = A[i, i] => {} }",
        "out",
        "`out` is no access (it is `new` here, or `update` where something was before): a \
         task can `read`, `update`, make `new`, `give` or read `optional` data, be in an `order`, be placed \
         `on` a rank and have a `priority`",
    ),
    (
        "for i in 0..n { S { i }: in a = A[i, i] => {} }",
        "in",
        "`in` is no access (it is `read` here): a \
         task can `read`, `update`, make `new`, `give` or read `optional` data, be in an `order`, be placed \
         `on` a rank and have a `priority`",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i, i] read b = A[i, n] => {} }",
        "read",
        "a `,` is missing before `read`",
    ),
    (
        "for to in 0..n { S { to }: update a = A[to, to] => {} }",
        "to",
        "`to` is a name that the generated functions use: take another one",
    ),
    // A variable that stands in no subscript hid the parameter where only a slot or a rank has it.
    (
        "let p = self.p; data B[i] in self.b at i % p;
         for p in 0..n { for i in 0..n { S { p, i }: update b = B[i] => {} } }",
        "p",
        "`p` is the name of a parameter or of a loop around already: take another one",
    ),
    (
        "let p = self.p; let p = self.q; data B[i] in self.b at i % p;
         for i in 0..n { S { i }: update b = B[i] => {} }",
        "p",
        "`p` is the name of a parameter or of a loop around already: take another one",
    ),
    (
        "dense; for i in 0..n { if i != m { S { i }: update a = A[i, i] => {} } }",
        "dense",
        "the tasks of `S` have no number by formula: loops of a dense space are not left out by an `if`, and \
         none ends before it begins, whatever the parameters (`0..n` and `1..=n` do not, `1..n` does where `n` \
         is 0); leave `dense` away",
    ),
    (
        "dense; for i in 1..n { S { i }: update a = A[i, i] => {} }",
        "dense",
        "(`0..n` and `1..=n` do not, `1..n` does where `n` is 0); leave `dense` away",
    ),
    (
        "dense; for i in 1..=n { S { i }: new t = T[i] => {} }",
        "",
        "",
    ),
    (
        "for i in 0..n { S { i }: order t = T[i] => {} }",
        "t",
        "`order t` is a flow without a datum; tasks `read`, `update` and make `new` the data of an `order` \
         family",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i, i], on (i % n, self.column(i)) => {} }",
        "(i % n, self.column(i))",
        "a grid of ranks is said as `on (m % p, n % q)`, a row of them as `on m % p`; of other numbers say the \
         rank itself, `on Rank(row * q + column)`",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i, i], on (i / 2 % n, i % m) => {} }",
        "(i / 2 % n, i % m)",
        "of other numbers say the rank itself, `on Rank(i / 2 % n * m + i % m)`",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i, i], on n % m => {} }",
        "n",
        "`n` is neither a subscript of these data nor a parameter of this task; by a parameter of the space say \
         the rank itself, `on Rank(n % m)`",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i, i], on Rank(n % m) => {} }",
        "",
        "",
    ),
    // What only orders has no place, unless it says one.
    (
        "data P[i] on i % n; for i in 0..n { S { i }: new H[i], new p = P[i] => {} }",
        "",
        "",
    ),
    (
        "data B[i] where i < i in self.b at i; for i in 0..n { S { i }: update b = B[i] => {} }",
        "i < i",
        "this condition never holds",
    ),
    (
        "data B[j] in self.b at i * n + j; for i in 0..n { for j in 0..n { S { i, j }: update b = B[j] => {} } }",
        "i",
        "`i` is no subscript of `B`: its place is said by subscripts, parameters of the space and `self`",
    ),
    (
        "data B[j] in self.b at (j | i); for i in 0..n { for j in 0..n { S { i, j }: update b = B[j] => {} } }",
        "i",
        "`i` is no subscript of `B`: its place is said by subscripts, parameters of the space and `self`",
    ),
    (
        "data B[j] in self.b at { let (i, k) = self.at(j); i + k }; \
         for i in 0..n { for j in 0..n { S { i, j }: update b = B[j] => {} } }",
        "",
        "",
    ),
    (
        "data B[j] on j % self.ranks(i); for i in 0..n { for j in 0..n { S { i, j }: new b = B[j] => {} } }",
        "i",
        "`i` is no subscript of `B`: its place is said by subscripts, parameters of the space and `self`",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i, i], on k % n => {} }",
        "k",
        "`k` is neither a subscript of these data nor a parameter of this task",
    ),
    (
        "data P[i] on i % n; for i in 0..n { S { i }: new p = P[i] => {} R { i }: new t = T[i] => {} }",
        "R",
        "it is not said where `R` runs: what it writes first has no rank; say `on RANK` among its accesses, \
         or with the data",
    ),
    (
        "let p = self.p; data E[i, j] on j % p; for i in 0..n { S { i }: new e = E[i, i - 1] => {} }",
        "i - 1",
        "`i - 1` may be negative here, and this task is placed by it: subtract elsewhere, or say `on RANK` \
         among its accesses",
    ),
    // No rank is made of the negative subscript, there is none, or the task is placed by another datum.
    (
        "data E[i, j] on i % m; for i in 0..n { S { i }: new e = E[i, i - 1] => {} }",
        "",
        "",
    ),
    (
        "data E[i, j] on j % m; for i in 0..n { if i > 0 { S { i }: new e = E[i, i - 1] => {} } }",
        "",
        "",
    ),
    (
        "data E[i] on i % m; for i in 0..n { S { i }: optional d = E[i - 1], new e = E[i] => {} }",
        "",
        "",
    ),
    (
        "#[cold] for i in 0..n { S { i }: update a = A[i, i] => {} }",
        "#[cold]",
        "attributes and `///` stand before `fn` here, and before the enum and the `impl`: a remark on a \
         statement is `// …`",
    ),
    // Within a loop it was told that a statement is expected.
    (
        "for i in 0..n { /// One.
         S { i }: update a = A[i, i] => {} }",
        "/// One.",
        "attributes and `///` stand before `fn` here, and before the enum and the `impl`: a remark on a \
         statement is `// …`",
    ),
    (
        "for i in 0..n { #[allow(unused)] if i > 0 { S { i }: update a = A[i, i] => {} } }",
        "#[allow(unused)]",
        "a remark on a statement is `// …`",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i, i] => a.x = i R { i }: new t = T[i] => {} }",
        "i",
        "the statement `S` ends with `;`",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i, i] R { i }: new t = T[i] => {} }",
        "[i, i]",
        "the statement `S` ends with `;`",
    ),
    // A function that the condition took out left the space without one, or with half of one.
    (
        "#[cfg(test)] fn count(&self, on: Rank) -> u64 { 0 } for i in 0..n { S { i }: update a = A[i, i] => {} }",
        "#[cfg(test)]",
        "what is derived depends on whether this function is here, and the macro cannot know: put the condition \
         at `task_space!`, one for each case",
    ),
    (
        "#[inline] #[cfg_attr(test, cfg(test))] fn rank(&self, task: Task) -> Rank { Rank(0) }
         for i in 0..n { S { i }: update a = A[i, i] => {} }",
        "#[cfg_attr(test, cfg(test))]",
        "put the condition at `task_space!`, one for each case",
    ),
    // The datum was never made, and whoever read it got none.
    (
        "for i in 0..n { S { i }: new T[i] => {} R { i }: read t = T[i] => {} }",
        "T[i]",
        "this body cannot make `T[i]`: name it, `new made = T[i]`, and `put` it",
    ),
    // It was told that a slot cannot be dereferenced.
    (
        "for i in 0..n { S { i }: new t = T[i] => { if i > 0 { *t = 1.0 } else { t.put(2.0) } } }",
        "t",
        "`t` is new, so there is no datum yet that `*t` could be: fill it by `t.put(…)`",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i, i], new t = T[i] => *t += *a; }",
        "t",
        "fill it by `t.put(…)`",
    ),
    // Another `t`, an expression, or what is no datum.
    (
        "for i in 0..n { S { i }: new t = T[i] => { t.put(0); let t = &mut 1; *t = 2; } }",
        "",
        "",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i, i], new t = T[i] => { t.put(0); a.t = 1; c && b == *t } }",
        "",
        "",
    ),
    (
        "for i in 0..n { S { i }: update a = A[i, i] => *a = 1.0; R { i }: new h = H[i] => *h = 1; }",
        "",
        "",
    ),
    // What only orders is not made, and a graph without bodies makes nothing.
    (
        "for i in 0..n { S { i }: new H[i], update a = A[i, i] => {} R { i }: new T[i]; }",
        "",
        "",
    ),
    (
        "fn inputs<I: Inputs<Self>>(&self, task: Task, from: &mut I) {} \
         for i in 0..n { S { i }: update a = A[i, i] => {} }",
        "<I: Inputs<Self>>",
        "`inputs` is completed by the macro and has no generics of its own: write `impl …` at its argument, as \
         the trait does",
    ),
    // A block may end with `;`, as any expression does.
    (
        "for i in 0..n { S { i }: update a = A[i, i] => { a.clear() }; R { i }: new t = T[i] => {} }",
        "",
        "",
    ),
    (
        "fn helper(&self) {} for i in 0..n { S { i }: update a = A[i, i] => {} }",
        "helper",
        "`helper` is not written here: the macro makes it, or it belongs into an `impl` of the type's own \
         (here may stand describe, inputs, successors, rank, owner, priority, tasks, roots, count, index)",
    ),
];

/// First came that the task changes what it takes, and the advice to take it before.
#[test]
fn a_datum_that_a_task_has_twice_is_told_once() {
    for loops in [
        "for i in 0..n { S { i }: read a = A[i, i], update b = A[i, i] => {} }",
        "for i in 0..n { S { i }: update a = A[i, i], read b = A[i, i] => {} }",
    ] {
        let found = faults(&space(loops));
        let text = "`S` accesses `A[i, i]` and `A[i, i]`, which are one datum, and writes it: a task accesses \
                    a datum once; exclude this by `if`, or `update` it only";
        assert_eq!(found, [("A[i, i]".to_owned(), text.to_owned())], "{loops}");
    }
}

#[test]
fn what_is_refused_is_said_at_the_users_own_words() {
    for (loops, place, message) in REFUSED.iter().filter(|row| !row.2.is_empty()) {
        let found = faults(&space(loops));
        let (at, said) = &found[0];
        assert_eq!(at, place, "{loops}: {found:?}");
        assert!(said.ends_with(message), "{loops}:\n{said}\n{message}");
    }
}

#[test]
fn what_is_right_after_all_is_taken_and_made_into_rust() {
    for (loops, _, _) in REFUSED.iter().filter(|row| row.2.is_empty()) {
        let taken = syn::parse_str::<Space>(&space(loops)).and_then(|space| expand(&space));
        let made = taken.and_then(syn::parse2::<syn::File>);
        assert!(made.is_ok(), "{loops}: {:?}", made.err());
    }
}

#[test]
fn what_is_refused_leaves_names_and_a_space_that_has_no_task() {
    let text = space("for i in 0..n { S { i }: update a = A[i * i, i] => {} }");
    let space = syn::parse_str::<Space>(&text).expect("a space");
    expand(&space).expect_err("a product of variables");
    let made = crate::generate::hollow(&space);
    syn::parse2::<syn::File>(made.clone()).expect("Rust");
    let made = made.to_string();
    assert!(made.contains("enum Task { S { i } }"), "{made}");
    let text = self::space("for i in 0..n { S { i, i }: new t = T[i] => {} }");
    let space = syn::parse_str::<Space>(&text).expect("a space");
    expand(&space).expect_err("a parameter twice");
    let made = crate::generate::hollow(&space).to_string();
    assert!(made.contains("enum Task { S { i } }"), "{made}");
}

#[test]
fn what_cannot_be_read_leaves_a_space_too() {
    for loops in [
        "for i in 0..n { S { i }: write a = A[i, i] => {} }",
        "for i in 0..n { S { i }: update a = A[i, i] => a.clear() }",
        "type Data = u8;",
    ] {
        let space = syn::parse_str::<Space>(&space(loops)).expect("its head can be read");
        expand(&space).expect_err("the rest cannot");
        let made = crate::generate::hollow(&space);
        syn::parse2::<syn::File>(made.clone()).expect("Rust");
        let made = made.to_string();
        assert!(made.contains("enum Task { Unread { } }"), "{made}");
        assert!(made.contains("TaskSpace for Test"), "{made}");
    }
}

/// Statements and lines, the words that are wrong, and what is said.
const UNRELATED: &[(&str, &str, &str)] = &[
    (
        "S { i } for i in 0..n: update a = A[i, i]; R { i } for i in 0..n: read x; \
         S { i: k }.a -> R { i }.x; S { i }.a -> home;",
        "x",
        "the line `S.a -> R.x` leaves open which task feeds this flow: each parameter of the task on the \
         left follows from those on the right",
    ),
    (
        "S { i } for i in 0..n: update a = A[i, i]; R { i } for i in 0..n: read x; \
         S { i }.a -> R { i }.x; S { i }.a -> R { i: i + 1 }.x, if i < m; S { i }.a -> home;",
        "x",
        "two lines feed this flow of the same task: `S.a -> R.x` and `S.a -> R.x`; say by `if` where each \
         of them holds",
    ),
    (
        "S { i } for i in 0..n: update a = A[i, i]; R { i } for i in 0..n: read x; \
         S { i }.a -> R { i }.x, if i > 0; S { i }.a -> home;",
        "x",
        "no line feeds `x` of `R` where i == 0, and it has no store: write a line that does, or say which \
         datum it is",
    ),
    (
        "S { i } for i in 0..n: new a; R { i } for i in 0..n: read x; S { i }.a -> R { i }.x; \
         S { i }.a -> home;",
        "a",
        "`a` has no store to go home to: say which datum it is, `update a = A[…]`",
    ),
    (
        "S { i } for i in 0..n: update a = A[i, i]; R { i } for i in 0..n: read x = A[i, i]; \
         S { i }.a -> R { i }.x; S { i }.a -> home; R { i }.x -> home;",
        "x",
        "`x` is only read and stays where it is: leave this line away, or `update x`",
    ),
    (
        "S { i } for i in 0..n: update a = A[i, i], order done; R { i } for i in 0..n: read x; \
         S { i }.done -> R { i }.x;",
        "x",
        "of `done` and `x` one carries a datum and the other one only orders",
    ),
    (
        "S { i } for i in 0..n: update a = A[i, i]; R { i } for i in 0..n: new x; S { i }.a -> R { i }.x; \
         S { i }.a -> home;",
        "x",
        "`x` of `R` is made `new` and takes nothing in: `read` or `update` it, or leave this line away",
    ),
    (
        "S { i } for i in 0..n: update a = A[i, i]; R { i } for i in 0..n: read x; \
         S { i }.a -> R { i }.x, for m in 0..n, if m > i; S { i }.a -> home;",
        "m",
        "`m` is the name of a parameter or of a loop around already: take another one",
    ),
    (
        "S { i } for i in 0..n: update a = A[i, i]; R { i } for i in 0..n: read x; \
         S { i }.a -> R { i }.x, if i < i; S { i }.a -> home;",
        "i < i",
        "this condition never holds",
    ),
    (
        "S { i } for i in 0..n: new a; S { i }.b -> S { i: i + 1 }.a;",
        "b",
        "`S` has no flow `b`",
    ),
    (
        "for i in 0..n { S { i }: read x => {} }",
        "x",
        "which datum? Say `read x = A[…]`; only relations between tasks feed flows without one",
    ),
    // The line about data switched the edges of the loops off: `R` ran before `S`.
    (
        "S { i } for i in 0..n: update a = A[i, i], new h = H[i]; \
         R { i } for i in 0..n: new t, read h = H[i]; S { i }.a -> home;",
        "H[i]",
        "no line names `H[i]` of `S`, and in this space lines say all edges: write `order done` for it and a \
         line, `S { … }.done -> …`",
    ),
    // The edges of the loops are said already, and the line was read and forgotten.
    (
        "for i in 0..n { S { i }: new h = H[i]; R { i }: read h = H[i]; } \
         S { i }.h -> R { i: i + 1 }.h;",
        "H[i]",
        "`H[i]` of `S` orders tasks as the loops do, and no line changes that: write `order done` for it, \
         which lines order",
    ),
];

/// Spaces of lines and of loops that lose no edge.
const ORDERED: &[&str] = &[
    "S { i } for i in 0..n: update a = A[i, i], new h = H[i]; R { i } for i in 0..n: new t, read h = H[i]; \
     S { i }.a -> home; S { i }.h -> R { i }.h;",
    "S { i } for i in 0..n: update a = A[i, i], order done; R { i } for i in 0..n: new t, order after; \
     S { i }.a -> home; S { i }.done -> R { i }.after;",
    "for i in 0..n { S { i }: new h = H[i], order done; R { i }: read h = H[i], order after; } \
     S { i }.done -> R { i: i + 1 }.after;",
];

#[test]
fn what_only_orders_keeps_its_edges_by_loops_or_by_lines() {
    for written in ORDERED {
        let space = syn::parse_str::<Space>(&space(written)).expect("a space");
        let made = expand(&space).unwrap_or_else(|error| panic!("{written}: {error}"));
        let made = made.to_string();
        assert!(made.contains("Task :: R { i"), "{written}:\n{made}");
    }
}

#[test]
fn lines_that_do_not_make_a_graph_are_refused() {
    for (lines, place, message) in UNRELATED {
        let found = faults(&space(lines));
        let (at, said) = &found[0];
        assert_eq!(at, place, "{lines}: {found:?}");
        assert!(said.ends_with(message), "{lines}:\n{said}\n{message}");
    }
}

#[test]
fn what_is_made_reads_as_written_by_hand() {
    let text = "crate enum Task; impl TaskSpace for Factor { type Datum = D; let nt = self.nt;
        data A[m, n] in self.a at m * nt + n on self.owner(m, n);
        for k in 0..nt {
            Potrf { k }: update tile = A[k, k] => potrf(tile);
            for m in k + 1..nt { Trsm { m, k }: update tile = A[m, k], read l = A[k, k] => trsm(l, tile); }
            for m in k + 1..nt { for n in k + 1..=m {
                Update { m, n, k }: update tile = A[m, n], read left = A[m, k], read right = A[n, k] => {
                    gemm(left, right, tile);
                }
            } }
        } }";
    let space = syn::parse_str::<Space>(text).expect("a space");
    let tokens = expand(&space).expect("formulas").to_string();
    let has = |text: &str| {
        let plain = |text: &str| text.split_whitespace().collect::<String>();
        assert!(
            plain(&tokens).contains(&plain(text)),
            "{text} is not in\n{tokens}"
        );
    };
    has("Task::Potrf { k } => {
        if k == 0 { let (m, n) = (k, k); from.home(0, &self.a, (m * nt + n) as usize); }");
    has("else { from.task(0, Task::Update { m: k, n: k, k: k - 1 }, 0); }");
    has("Task::Trsm { m, k } => {
        to.range(0, k + 1..m + 1, |n| Task::Update { m, n, k }, 1);");
    has("to.range(0, m..nt, |i| Task::Update { m: i, n: m, k }, 2);");
    has("(1, 1) => { let k = at[0]; (k + 1..nt).into() }");
    has("0 => { let k = at[0]; Task::Potrf { k } }");
    has("walk_of(on, nt) }, move |task| crate::space::TaskSpace::rank(self, task) == on)");
    has("Task::Update { m, n, .. } => self.owner(m, n),");
}

/// Once, whatever the type of the space: for a library's four precisions.
#[test]
fn loops_are_walked_through_by_a_function_of_numbers_unless_ranks_need_the_space() {
    for (on, is_apart) in [
        ("i % n", true),
        ("i % 3", true),
        ("i % self.p", false),
        ("i % N", false),
    ] {
        let text = space(&format!(
            "for i in 0..n {{ S {{ i }}: new t = T[i], on {on} => {{}} }}"
        ));
        let space = syn::parse_str::<Space>(&text).expect("a space");
        let made = expand(&space).expect("formulas").to_string();
        assert_eq!(made.contains("fn walk_of"), is_apart, "{on}: {made}");
    }
}

/// `LU` was `l_u`, and what is behind a reference had no name.
#[test]
fn a_space_that_says_no_name_has_that_of_its_type() {
    for (of, name) in [
        ("TileCholesky", "tile_cholesky"),
        ("lu::LU<'_, T>", "lu"),
        ("QRFactor", "qr_factor"),
        ("Jacobi3D", "jacobi3d"),
        ("Block2Solver", "block2_solver"),
        ("&'a Heat", "heat"),
        ("r#Type", "type"),
        ("Left_Right", "left_right"),
    ] {
        let text = space("for i in 0..n { S { i }: new t = T[i] => {} }");
        let text = text.replace("for Test", &format!("for {of}"));
        let space = syn::parse_str::<Space>(&text).expect("a space");
        let made = expand(&space).expect("formulas").to_string();
        assert!(
            made.contains(&format!("about . name (\"{name}\")")),
            "{of}: {made}"
        );
    }
}

/// In parentheses it was a number, and no rank.
#[test]
fn a_row_of_ranks_may_stand_in_parentheses() {
    for on in ["on i % n", "on (i % n)", "on ((i % n))"] {
        let text = space(&format!(
            "for i in 0..n {{ S {{ i }}: new t = T[i], {on} => {{}} }}"
        ));
        let space = syn::parse_str::<Space>(&text).expect("a space");
        let made = expand(&space).expect("formulas").to_string();
        assert!(made.contains("rank :: Rank (i % n)"), "{on}: {made}");
    }
}

#[test]
fn parameters_that_follow_from_others_are_computed_once_in_a_function() {
    let text = space(
        "let p = n + 1; let q = n + p; let r = n + p + q;
         for i in 0..r { S { i }: new t = T[i] => {} }",
    );
    let space = syn::parse_str::<Space>(&text).expect("a space");
    let made = expand(&space).expect("formulas").to_string();
    let plain = made.replace("# [allow (unused_variables)] ", "");
    let once = "let n : u32 = self . n ; let p : u32 = n + 1 ; let q : u32 = n + p ; let r : u32 = n + p + q ;";
    assert!(plain.contains(once), "{made}");
    let count = |text: &str| made.matches(text).count();
    assert!(count("let p : u32") <= count("fn "), "{made}");
}

/// What stands in `task_space! { … }` anywhere in a text.
fn written(tokens: TokenStream, found: &mut Vec<TokenStream>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else {
            continue;
        };
        let before = tokens[..at].iter().rev().take(2).map(ToString::to_string);
        match before.eq(["!".to_owned(), "task_space".to_owned()]) {
            true => found.push(group.stream()),
            false => written(group.stream(), found),
        }
    }
}

/// All spaces in the Rust files of a folder, with the files' names.
fn spaces_of(folder: &Path, found: &mut Vec<(String, TokenStream)>) {
    let entries = std::fs::read_dir(folder).expect("a folder of the workspace");
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            spaces_of(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a file of the workspace");
            let mut spaces = Vec::new();
            written(text.parse().expect("Rust"), &mut spaces);
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            found.extend(spaces.into_iter().map(|space| (name.to_string(), space)));
        }
    }
}

/// `cargo test -p dataflow-macros every_space -- --nocapture` prints how long each takes; the bound is
/// 100 ms on a quiet machine.
#[test]
fn every_space_of_the_workspace_is_derived_in_no_time() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut spaces = Vec::new();
    for folder in ["crates/dataflow-linalg/src", "examples", "benches"] {
        spaces_of(&workspace.join(folder), &mut spaces);
    }
    assert!(spaces.len() > 12, "{} spaces", spaces.len());
    for (file, written) in spaces {
        let start = Instant::now();
        let space = syn::parse2::<Space>(quote!(crate #written)).expect("a space");
        let parsed = start.elapsed();
        expand(&space).unwrap_or_else(|error| panic!("{file}: {error}"));
        let took = start.elapsed();
        let [parsed, all] = [parsed, took].map(|took| took.as_secs_f64() * 1e3);
        println!(
            "{file:>20} {:20} {parsed:6.2} ms to read, {all:6.2} ms in all",
            space.task.to_string()
        );
        assert!(took < Duration::from_secs(2), "{file}: {took:?}");
    }
}
