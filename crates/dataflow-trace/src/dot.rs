//! Dot: who fed whom in a small run, for Graphviz.
//!
//! # Law
//! A node a task, a cluster a rank, an edge an input; more than [`MOST`] tasks are no picture and are
//! refused.

use crate::colour::Colours;
use crate::text::plain;
use crate::view::View;
use dataflow_core::trace::{At, Fate};
use std::io;

/// Tasks that can be drawn.
const MOST: usize = 2_000;

/// Writes what is seen of a trace.
pub(crate) fn write(view: &View<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let count = view.all_slices().count();
    if count > MOST {
        let text = format!("Graphviz draws {MOST} tasks at most, and {count} are seen");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let name = plain(&view.trace.name);
    writeln!(
        out,
        "digraph \"{name}\" {{\nnode [shape=box style=filled fontname=\"sans-serif\"];"
    )?;
    for (rank, of) in view.ranks() {
        writeln!(
            out,
            "subgraph cluster_{} {{\nlabel=\"rank {}\";",
            of.rank.0, of.rank.0
        )?;
        for worker in 0..of.workers.len() {
            for (at, slice) in view.slices(rank, worker) {
                let colour = match slice.fate {
                    Fate::Ran => Colours::of_class(view.class(slice)),
                    Fate::Skipped => Colours::SKIPPED,
                    Fate::Failed => Colours::FAILED,
                };
                let shown = plain(&view.trace.shown(at)).replace('\\', "\\\\");
                let colour = Colours::css(colour);
                writeln!(
                    out,
                    "{} [label=\"{shown}\" fillcolor=\"{colour}\"];",
                    node(at)
                )?;
            }
        }
        writeln!(out, "}}")?;
    }
    let seen = |at: &At| view.shows(view.trace.slice(*at).span);
    for (at, _) in view.all_slices() {
        for input in view.trace.inputs(at).filter(seen) {
            writeln!(out, "{} -> {};", node(input), node(at))?;
        }
    }
    writeln!(out, "}}")?;
    out.flush()
}

fn node(at: At) -> String {
    format!("r{}s{}", at.rank, at.slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataflow_core::rank::Rank;
    use dataflow_core::trace::{RankTrace, Slice, Span, Trace};

    fn chain(length: u64) -> Trace {
        let slice = |task| Slice {
            task,
            span: Span {
                begin: task,
                end: task + 1,
            },
            ..Slice::default()
        };
        let span = Span {
            begin: 0,
            end: length,
        };
        let rank = RankTrace::new(Rank(0), span, vec![(0..length).map(slice).collect()]);
        let fed = |_, slice: &Slice| {
            slice
                .task
                .checked_sub(1)
                .map(|before| (before, Rank(0)))
                .into_iter()
                .collect()
        };
        Trace::new("a \"chain\"", ["Link"], vec![rank.with_inputs(fed)])
    }

    fn written(trace: &Trace) -> io::Result<String> {
        let mut out = Vec::new();
        write(&View::of(trace), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_chain_is_a_node_a_task_and_an_edge_between_neighbours() {
        let text = written(&chain(3)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "digraph \"a 'chain'\" {");
        let nodes = lines
            .iter()
            .filter(|line| line.contains("label=\"Link"))
            .count();
        let edges: Vec<_> = lines.iter().filter(|line| line.contains("->")).collect();
        assert_eq!(
            (nodes, edges),
            (3, vec![&"r0s0 -> r0s1;", &"r0s1 -> r0s2;"])
        );
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        let refused = written(&chain(2_001)).unwrap_err();
        assert!(refused.to_string().contains("2001 are seen"), "{refused}");
    }
}
