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
    let name = quoted(&view.trace.name);
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
                let shown = quoted(&view.trace.shown(at));
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
    let seen = |at: &At| view.shows_rank(at.rank) && view.shows(view.trace.slice(*at).span);
    for (at, _) in view.all_slices() {
        for input in view.trace.inputs(at).filter(seen) {
            writeln!(out, "{} -> {};", node(input), node(at))?;
        }
    }
    writeln!(out, "}}")?;
    out.flush()
}

/// A text as it stands between quotation marks.
fn quoted(text: &str) -> String {
    plain(text).replace('\\', "\\\\")
}

fn node(at: At) -> String {
    format!("r{}s{}", at.rank, at.slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Window;
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
        cut(trace, Window::default())
    }

    fn cut(trace: &Trace, window: Window) -> io::Result<String> {
        let mut out = Vec::new();
        write(&View::cut(trace, window), &mut out)?;
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
    fn an_edge_has_both_its_tasks_in_the_picture() {
        let slice = |task, begin| Slice {
            task,
            span: Span {
                begin,
                end: begin + 10,
            },
            ..Slice::default()
        };
        let span = Span { begin: 0, end: 30 };
        let one = RankTrace::new(Rank(0), span, vec![vec![slice(0, 0)]]);
        let other = vec![vec![slice(1, 10), slice(2, 20)]];
        let other = RankTrace::new(Rank(1), span, other)
            .with_inputs(|index, _| [vec![(0, Rank(0))], vec![(1, Rank(1))]][index].clone());
        let trace = Trace::new("two ranks", ["Link"], vec![one, other]);
        let edges = |window| {
            let text = cut(&trace, window).unwrap();
            let edges = text.lines().filter(|line| line.contains("->"));
            edges.map(str::to_string).collect::<Vec<_>>()
        };
        let (from_afar, near) = ("r0s0 -> r1s0;", "r1s0 -> r1s1;");
        assert_eq!(edges(Window::default()), [from_afar, near]);
        assert_eq!(
            edges(Window {
                ranks: 1..2,
                ..Window::default()
            }),
            [near]
        );
    }

    #[test]
    fn a_backslash_in_a_name_does_not_end_the_text_early() {
        let mut trace = chain(1);
        trace.name = "a \\".to_string();
        let text = written(&trace).unwrap();
        assert_eq!(text.lines().next(), Some("digraph \"a \\\\\" {"));
    }

    #[test]
    fn a_task_that_failed_or_was_skipped_has_a_colour_of_its_own() {
        let mut trace = chain(3);
        let slices = &mut trace.ranks[0].slices;
        (slices[1].fate, slices[2].fate) = (Fate::Failed, Fate::Skipped);
        let text = written(&trace).unwrap();
        let colours = [Colours::of_class(0), Colours::FAILED, Colours::SKIPPED].map(Colours::css);
        for (task, colour) in colours.iter().enumerate() {
            let node = format!("label=\"Link {task}\" fillcolor=\"{colour}\"");
            assert!(text.contains(&node), "{node}: {text}");
        }
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        let refused = written(&chain(2_001)).unwrap_err();
        assert!(refused.to_string().contains("2001 are seen"), "{refused}");
    }
}
