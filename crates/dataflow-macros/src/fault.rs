//! What is wrong with a program, said where it is written.

use crate::lower::Lowered;
use crate::parse::{End, Space, Statement};
use dataflow_affine::{Fault, Inexact, Reason, System, Var};
use syn::{Error, Ident};

/// All faults as errors of the compiler.
pub fn report(space: &Space, lowered: &Lowered<'_>, faults: &[Fault]) -> Error {
    let mut errors = faults.iter().map(|fault| error(space, lowered, fault));
    let first = errors.next();
    let mut all = first.unwrap_or_else(|| Error::new(space.site, "this space has no formulas"));
    errors.for_each(|error| all.combine(error));
    all
}

fn error(space: &Space, lowered: &Lowered<'_>, fault: &Fault) -> Error {
    let statement = lowered.statements[fault.statement];
    let text = text(space, lowered, fault);
    match fault.access.map(|at| &statement.accesses[at]) {
        Some(access) => Error::new_spanned(&access.element, text),
        None => Error::new(statement.name.span(), text),
    }
}

fn text(space: &Space, lowered: &Lowered<'_>, fault: &Fault) -> String {
    let statement = lowered.statements[fault.statement];
    let name = &statement.name;
    let of = |statement: usize, access: usize| {
        let by = lowered.statements[statement];
        (&by.name, by.accesses[access].shown())
    };
    let own = |at: usize| statement.accesses[at].shown();
    let element = fault.access.map(own).unwrap_or_default();
    let context = &lowered.program.statements()[fault.statement].base;
    let under = |guard: &System| match lowered.program.guard(guard, context) {
        guard if guard.is_empty() => String::new(),
        guard => format!(" where {guard}"),
    };
    match &fault.reason {
        Reason::Inexact(inexact) => inexact_text(lowered, name, fault.access.is_some(), inexact),
        Reason::TooMany => format!(
            "`{element}` of `{name}` has too many alternatives of which task wrote it: with each loop before it \
             whose bounds are unrelated to the others' they double. Say what is known of the bounds (let each \
             range begin where the one before ends), or give each range data of its own"
        ),
        Reason::TooManyParts => format!(
            "the conditions of `{name}` hold in too many parts (at most 64): each `!=` of unrelated numbers \
             doubles them, and so does each `||`. Say by the loops' bounds what they say, or make statements of \
             its parts"
        ),
        Reason::Negative(var) => negative(lowered, fault.statement, *var),
        Reason::WrittenTwice(other) => format!(
            "`{name}` writes `{element}` twice: as `{}` too. A task has one flow for each datum that it \
             writes: access it once, or say by `if` that these are two data",
            own(*other)
        ),
        Reason::ReadAndWritten(other, guard) => format!(
            "`{name}` accesses `{element}` and `{}`, which are one datum{}, and writes it: a task accesses a \
             datum once; exclude this by `if`, or `update` it only",
            own(*other),
            under(guard)
        ),
        Reason::NobodyWrote(guard) if lowered.by_lines => format!(
            "no line feeds `{element}` of `{name}`{}, and it has no store: write a line that does, or say \
             which datum it is",
            under(guard)
        ),
        Reason::NobodyWrote(guard) => {
            let mode = fault
                .access
                .map(|at| statement.accesses[at].mode.to_string());
            let (does, optional) = match mode.as_deref() {
                Some("update") => ("changes", ""),
                Some("give") => ("gives", ""),
                _ => ("reads", ", read it as `optional`"),
            };
            format!(
                "`{element}` is not written by any task before `{name}` {does} it{}, and it has no store: \
                 write it earlier (`new`){optional}, or say where it is (`data … in STORE at SLOT`)",
                under(guard)
            )
        }
        Reason::Outside(guard) => {
            let mode = fault
                .access
                .map(|at| statement.accesses[at].mode.to_string());
            let optional = match mode.as_deref() {
                Some("optional") => ", and `optional` reaches no further than these",
                _ => "",
            };
            format!(
                "`{element}` lies outside of its data{}{optional}: narrow the bounds of the loop, or put an \
                 `if` around `{name}`",
                under(guard)
            )
        }
        Reason::TakenMeanwhile(by, access) => {
            let (by, its) = of(*by, *access);
            format!(
                "`{name}` reads `{element}` from its store, while `{by}` changes it there (`{its}`): let a \
                 task take it first and hand it to both, in loops of its own before these, {}",
                advice(statement, fault.access, "update")
            )
        }
        Reason::Replaced(by, access) => {
            let (by, its) = of(*by, *access);
            format!(
                "`{name}` takes `{element}` from its store, and `{by}` puts a new one there (`new {its}`), so \
                 that the first one would be lost: let `{by}` update it, or make it new here too"
            )
        }
        Reason::Undetermined(line) => format!(
            "the line `{}` leaves open which task feeds this flow: each parameter of the task on the left \
             follows from those on the right",
            self::line(space, *line)
        ),
        Reason::TwoSources(one, other) => format!(
            "two lines feed this flow of the same task: `{}` and `{}`; say by `if` where each of them holds",
            self::line(space, *one),
            self::line(space, *other)
        ),
        Reason::GivenAndWritten(by, access) => {
            let (by, its) = of(*by, *access);
            format!(
                "`{name}` gives `{element}`, which stays as it is in its store, and `{by}` changes it \
                 (`{its}`): say `update` for `give`"
            )
        }
    }
}

/// The variable of a loop may be negative, unless what the loop begins with is not.
fn negative(lowered: &Lowered<'_>, statement: usize, var: Var) -> String {
    let program = &lowered.program;
    let loops = program.statements()[statement].loops.iter();
    let from = loops.filter(|each| each.var == var).map(|each| &each.from);
    let varies = from.filter(|from| !from.terms().is_empty());
    let begins = System::new(varies.cloned());
    let otherwise = match program.guard(&begins, &System::default()) {
        guard if guard.is_empty() => String::new(),
        guard => format!(", or put the loop into `if {guard} {{ … }}`"),
    };
    format!(
        "`{}` may be negative here, and the parameters of a task are not: begin the loop at 0, and subtract \
         in the subscripts{otherwise}",
        program.name(var)
    )
}

/// The ends of a line, without their parameters.
fn line(space: &Space, at: usize) -> String {
    let end = |end: &End| format!("{}.{}", end.class, end.flow);
    let line = &space.relations[at];
    let target = line.target.as_ref().map_or("home".to_owned(), end);
    format!("{} -> {target}", end(&line.source))
}

/// A statement that takes a datum before others do.
fn advice(statement: &Statement, access: Option<usize>, mode: &str) -> String {
    let Some(access) = access.map(|at| &statement.accesses[at]) else {
        return String::new();
    };
    let names = ["i", "j", "k", "l"];
    let used = (0..access.subscripts.len()).map(|at| match names.get(at) {
        Some(name) => name.to_string(),
        None => format!("i{at}"),
    });
    let used: Vec<String> = used.collect();
    let used = used.join(", ");
    format!("`Take {{ {used} }}: {mode} {}[{used}];`", access.family)
}

/// The loops of a statement have bounds that could be fractions.
pub fn fractions(lowered: &Lowered<'_>, name: &Ident, inexact: &Inexact) -> Error {
    Error::new(name.span(), inexact_text(lowered, name, false, inexact))
}

fn inexact_text(lowered: &Lowered<'_>, name: &Ident, is_access: bool, inexact: &Inexact) -> String {
    let program = &lowered.program;
    let what = match is_access {
        true => format!("what `{name}` accesses has"),
        false => format!("the loops and conditions around `{name}` have"),
    };
    let [a, b] = &inexact.constraints;
    if inexact.is_too_long() {
        return format!(
            "{what} too many cases to be looked at: loops before it with unrelated bounds and conditions that \
             hold in several parts multiply. Say what is known of the bounds, make fewer conditions, or give \
             statements data of their own"
        );
    }
    if a.is_too_large() {
        return format!("{what} no exact formula: its numbers are too large; use smaller factors");
    }
    let both = match a == b {
        true => format!("`{} >= 0` holds", program.expression(a)),
        false => format!(
            "`{} >= 0` and `{} >= 0` hold",
            program.expression(a),
            program.expression(b)
        ),
    };
    format!(
        "{what} no exact formula: {both} `{}` with factors other than 1 and -1, so \
         that bounds could be fractions. Loop to the quotient, a parameter `let half = self.n / 2;`, or give \
         each remainder an array of its own",
        program.name(inexact.var)
    )
}
