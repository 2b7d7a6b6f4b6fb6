//! Texts: what was derived, as a person reads it.

use crate::affine::{Affine, Var};
use crate::program::{Access, Loop, Mode, Program, Statement};
use crate::said::{Comparison, Said, chain, said};
use crate::system::System;
use crate::targets::{Output, Range};
use crate::{Derived, Inexact};

/// Names for what runs through a range and is called as a variable of the writer.
const SPARE: [&str; 6] = ["i", "j", "l", "p", "q", "r"];

impl Program {
    /// An expression, positive terms first.
    pub fn expression(&self, e: &Affine) -> String {
        self.named(e, &|var| self.name(var).to_owned())
    }

    /// An expression with names of the caller's.
    pub(crate) fn named(&self, e: &Affine, name: &impl Fn(Var) -> String) -> String {
        let mut text = String::new();
        let positive = e.terms().iter().filter(|t| t.1 > 0);
        let negative = e.terms().iter().filter(|t| t.1 < 0);
        for &(var, c) in positive {
            let plus = if text.is_empty() { "" } else { " + " };
            let name = name(var);
            text += &match c {
                1 => format!("{plus}{name}"),
                _ => format!("{plus}{c} * {name}"),
            };
        }
        if text.is_empty() && (e.constant() > 0 || e.terms().is_empty()) {
            text = e.constant().to_string();
        } else if e.constant() > 0 {
            text += &format!(" + {}", e.constant());
        }
        for &(var, c) in negative {
            let minus = if text.is_empty() { "-" } else { " - " };
            let name = name(var);
            text += &match c {
                -1 => format!("{minus}{name}"),
                _ => format!("{minus}{} * {name}", -c),
            };
        }
        if e.constant() < 0 && !e.terms().is_empty() {
            text += &format!(" - {}", -e.constant());
        }
        text
    }

    /// Comparisons, all of which hold.
    pub fn say(&self, said: &[Said]) -> String {
        let one = |s: &Said| {
            let sign = match s.comparison {
                Comparison::Equal => "==",
                Comparison::Less => "<",
                Comparison::AtMost => "<=",
                Comparison::Greater => ">",
                Comparison::AtLeast => ">=",
            };
            format!(
                "{} {sign} {}",
                self.expression(&s.left),
                self.expression(&s.right)
            )
        };
        said.iter().map(one).collect::<Vec<_>>().join(" && ")
    }

    /// A guard as comparisons; empty if it always holds.
    pub fn guard(&self, guard: &System, context: &System) -> String {
        said(guard, context).map_or_else(|_| String::new(), |s| self.say(&s))
    }

    /// `A[m, k]`.
    pub fn element(&self, family: usize, subscripts: &[Affine]) -> String {
        let subscripts: Vec<_> = subscripts.iter().map(|e| self.expression(e)).collect();
        format!("{}[{}]", self.families[family].name, subscripts.join(", "))
    }

    /// How an access is called: by its name, or by the datum.
    pub fn access(&self, statement: usize, access: usize) -> String {
        let access = &self.statements[statement].accesses[access];
        match &access.name {
            Some(name) => name.clone(),
            None => self.element(access.family, &access.subscripts),
        }
    }

    /// `update tile = A[m, k]`.
    fn flow(&self, access: &Access) -> String {
        let family = &self.families[access.family];
        let mode = match access.mode {
            _ if family.related && family.orders => "order",
            Mode::Read => "read",
            Mode::Optional => "optional",
            Mode::Update => "update",
            Mode::Give => "give",
            Mode::New => "new",
        };
        let element = self.element(access.family, &access.subscripts);
        match &access.name {
            Some(name) if family.related => format!("{mode} {name}"),
            Some(name) => format!("{mode} {name} = {element}"),
            None => format!("{mode} {element}"),
        }
    }

    /// A task by its class and parameters, in the order in which they are shown.
    fn task_at(
        &self,
        statement: &Statement,
        iteration: &[Affine],
        name: &impl Fn(Var) -> String,
    ) -> String {
        let field = |&at: &usize| {
            let (var, value) = (self.name(statement.loops[at].var), &iteration[at]);
            let value = self.named(value, name);
            match value == var {
                true => value,
                false => format!("{var}: {value}"),
            }
        };
        let fields: Vec<_> = statement.shown.iter().map(field).collect();
        match fields.is_empty() {
            true => format!("{} {{}}", statement.name),
            false => format!("{} {{ {} }}", statement.name, fields.join(", ")),
        }
    }

    /// A name for each range of an output that the writer does not use.
    pub fn range_names(&self, writer: &Statement, output: &Output) -> Vec<String> {
        let parameters = self.parameters().map(|var| self.name(var));
        let writers = writer.vars().map(|var| self.name(var));
        let mut taken: Vec<String> = writers.chain(parameters).map(str::to_owned).collect();
        let mut names = Vec::new();
        for range in &output.ranges {
            let own = [self.name(range.var)];
            let mut free = own
                .iter()
                .chain(&SPARE)
                .filter(|n| !taken.contains(&n.to_string()));
            let name = free
                .next()
                .map_or_else(|| format!("{}_", own[0]), |n| n.to_string());
            taken.push(name.clone());
            names.push(name);
        }
        names
    }

    /// The name of a variable in the formula of an output.
    pub fn output_name(&self, output: &Output, names: &[String], var: Var) -> String {
        let range = output.ranges.iter().position(|range| range.var == var);
        range.map_or_else(|| self.name(var).to_owned(), |at| names[at].clone())
    }

    fn range(&self, range: &Range, name: &impl Fn(Var) -> String) -> String {
        let ends = |bounds: &[Affine], pick: &str, shift: i64| {
            let shown: Vec<_> = bounds
                .iter()
                .map(|e| self.named(&(e.clone() + shift), name))
                .collect();
            match &shown[..] {
                [only] => only.clone(),
                _ => format!("{pick}({})", shown.join(", ")),
            }
        };
        let (from, to) = (ends(&range.lower, "max", 0), ends(&range.upper, "min", 1));
        format!("{} in {from}..{to}", name(range.var))
    }

    /// `TASK.FLOW, for i in …, if …` of one output.
    fn target(&self, writer: &Statement, output: &Output) -> String {
        let names = self.range_names(writer, output);
        let name = |var| self.output_name(output, &names, var);
        let reader = &self.statements[output.statement];
        let mut text = self.task_at(reader, &output.iteration, &name);
        text += &format!(".{}", self.access(output.statement, output.access));
        for range in &output.ranges {
            text += &format!(", for {}", self.range(range, &name));
        }
        let guard = self.guard(&output.guard, &writer.base);
        if !guard.is_empty() {
            text += &format!(", if {guard}");
        }
        text
    }

    /// `Gemm { m, n, k }, for k in 0..nt, …, if …`.
    fn class(&self, statement: &Statement) -> String {
        let own: Vec<Affine> = statement.vars().map(Affine::from).collect();
        let mut text = self.task_at(statement, &own, &|var| self.name(var).to_owned());
        for each in &statement.loops {
            let (from, to) = (self.expression(&each.from), self.expression(&each.to));
            let down = if each.descends { " downwards" } else { "" };
            text += &format!(", for {} in {from}..{to}{down}", self.name(each.var));
        }
        let bounds = statement.loops.iter().flat_map(Loop::bounds);
        let positive = self.parameters().map(Affine::from);
        let bounds = System::new(bounds.chain(positive));
        let beyond = |piece: &System| piece.given(&bounds).unwrap_or_else(|_| piece.clone());
        let conditions = statement.pieces.iter().map(|piece| {
            let condition = beyond(piece);
            self.guard(&condition, &bounds)
        });
        let conditions: Vec<_> = conditions.filter(|text| !text.is_empty()).collect();
        if !conditions.is_empty() {
            text += &format!(", if {}", conditions.join(" || "));
        }
        text
    }
}

impl Derived {
    /// Every statement with where its data come from (`<-`) and where they go (`->`).
    pub fn text(&self, program: &Program) -> String {
        let mut text = String::new();
        for (number, statement) in program.statements.iter().enumerate() {
            text += &format!("{}\n", program.class(statement));
            for (at, access) in statement.accesses.iter().enumerate() {
                text += &format!("    {}\n", program.flow(access));
                for from in self.incoming(program, number, at) {
                    text += &format!("        <- {from}\n");
                }
                for to in self.outgoing(program, number, at) {
                    text += &format!("        -> {to}\n");
                }
            }
        }
        text
    }

    /// Where the datum of an access comes from, alternative by alternative.
    fn incoming(&self, program: &Program, number: usize, at: usize) -> Vec<String> {
        let statement = &program.statements[number];
        let access = &statement.accesses[at];
        let name = |var| program.name(var).to_owned();
        let mut lines = Vec::new();
        for (said, input) in inputs(self, number, at, statement) {
            let from = match &input.source {
                Some(source) => {
                    let writer = &program.statements[source.statement];
                    let task = program.task_at(writer, &source.iteration, &name);
                    let flow = program.access(source.statement, source.access);
                    format!("{task}.{flow}")
                }
                None if program.families[access.family].stored => {
                    let element = program.element(access.family, &access.subscripts);
                    format!("home {element}")
                }
                None => "nobody".to_owned(),
            };
            lines.push(match (said.is_empty(), lines.is_empty()) {
                (true, true) => from,
                (true, false) => format!("{from} otherwise"),
                (false, _) => format!("{from} if {}", program.say(&said)),
            });
        }
        lines
    }

    /// Where it goes: to tasks, then home.
    fn outgoing(&self, program: &Program, number: usize, at: usize) -> Vec<String> {
        let (statement, tasks) = (&program.statements[number], &self.tasks[number]);
        let access = &statement.accesses[at];
        let element = program.element(access.family, &access.subscripts);
        let targets = tasks.outputs[at].iter();
        let targets = targets.map(|output| program.target(statement, output));
        let homes = tasks.homes[at].iter();
        let homes = homes.map(|home| match program.guard(home, &statement.base) {
            guard if guard.is_empty() => format!("home {element}"),
            guard => format!("home {element}, if {guard}"),
        });
        targets.chain(homes).collect()
    }

    /// Every family of edges as one line, `TASK.FLOW -> TASK.FLOW, for …, if …`, as a space may be
    /// written too; what goes home; and, as comments, what comes from there.
    pub fn relations(&self, program: &Program) -> String {
        let mut text = String::new();
        for (number, statement) in program.statements.iter().enumerate() {
            let own: Vec<Affine> = statement.vars().map(Affine::from).collect();
            let name = |var| program.name(var).to_owned();
            let task = program.task_at(statement, &own, &name);
            for (at, access) in statement.accesses.iter().enumerate() {
                let end = format!("{task}.{}", program.access(number, at));
                let element = program.element(access.family, &access.subscripts);
                let under = |guard: &System| match program.guard(guard, &statement.base) {
                    guard if guard.is_empty() => String::new(),
                    guard => format!(", if {guard}"),
                };
                let stored = program.families[access.family].stored;
                let of_access = &self.tasks[number].inputs[at];
                for input in of_access.iter().filter(|i| i.source.is_none() && stored) {
                    text += &format!("// home {element} -> {end}{};\n", under(&input.guard));
                }
                for output in &self.tasks[number].outputs[at] {
                    text += &format!("{end} -> {};\n", program.target(statement, output));
                }
                for home in &self.tasks[number].homes[at] {
                    text += &format!("{end} -> home{};\n", under(home));
                }
            }
        }
        text
    }
}

/// The alternatives of an access in the order in which they are asked for.
fn inputs<'d>(
    derived: &'d Derived,
    statement: usize,
    access: usize,
    of: &Statement,
) -> Vec<(Vec<Said>, &'d crate::Input)> {
    let alternatives = &derived.tasks[statement].inputs[access];
    let plain = |_: Inexact| {
        let plain = alternatives.iter();
        plain
            .map(|i| (said(&i.guard, &of.base).unwrap_or_default(), i))
            .collect()
    };
    chain(alternatives, of).unwrap_or_else(plain)
}
