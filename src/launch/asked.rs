//! Asked: by which transport a program is launched, and on how many ranks.

use crate::runtime::{RuntimeBuilder, Transport, variable};
use dataflow_core::Error;
use dataflow_mpi::start::{Launched, Seat};

/// How many ranks `cargo mpirun` says it starts.
const EXPECTED: &str = "DATAFLOW_EXPECTED_RANKS";

impl RuntimeBuilder {
    /// The transport that was asked for, or that of a seat taken by hand, or the launcher's. A process that
    /// rank 0 has started joins those launches that ask for sockets, as rank 0 does.
    pub(super) fn chosen(&self) -> Result<Transport, Error> {
        let by_hand = |seat: Seat| seat.started_by.is_none();
        match (self.transport, &self.seat) {
            // Without its seat each process would be all ranks there are.
            (Some(other), Some(seat)) if other != Transport::Tcp => {
                return Err(Error::wrong_settings(format!(
                    "the transport {other:?}, and a seat as {} of {} (seats are for sockets: Tcp)",
                    seat.rank, seat.n_ranks
                )));
            }
            (Some(asked), _) => return Ok(asked),
            (None, _) if self.seated()?.is_some_and(by_hand) => return Ok(Transport::Tcp),
            (None, _) => {}
        }
        let launched = launched_ranks()?.is_some_and(|n_ranks| n_ranks > 1);
        Ok(
            match launched || (cfg!(feature = "mpi") && Launched::of(variable)?.is_some()) {
                true => Transport::Mpi,
                false => Transport::Local,
            },
        )
    }

    /// The seat that was given, here or in the environment.
    pub(super) fn seated(&self) -> Result<Option<Seat>, Error> {
        match &self.seat {
            Some(seat) => Ok(Some(seat.clone())),
            None => Seat::of(variable),
        }
    }

    /// How many ranks [`launch`](crate::launch()) runs on: as many as a launcher has started, or as were asked for.
    ///
    /// # Errors
    /// If the environment contradicts itself, or what was asked for.
    pub fn count_ranks(&self) -> Result<usize, Error> {
        let launched = match self.chosen()? {
            Transport::Local | Transport::Own => None,
            Transport::Tcp => self.seated()?.map(|seat| seat.n_ranks),
            Transport::Mpi => launched_ranks()?,
        };
        match launched {
            None => Ok(self.n_asked()),
            Some(n_ranks) => self.confirmed(n_ranks),
        }
    }

    /// How many ranks there are if nobody else has started any.
    pub(super) fn n_asked(&self) -> usize {
        self.ranks.unwrap_or(1)
    }

    /// Whether ranks that others have started are as many as were asked for, if a number was.
    pub(super) fn confirmed(&self, n_ranks: usize) -> Result<usize, Error> {
        match self.ranks {
            Some(asked) if asked != n_ranks => Err(Error::wrong_settings(format!(
                "{}, and {n_ranks} {} started by a launcher or by hand (ask for no number, and all \
                 that were started run; or start {asked})",
                were_asked(asked),
                were(n_ranks)
            ))),
            _ => Ok(n_ranks),
        }
    }
}

/// How many ranks a launcher says that it has started.
fn launched_ranks() -> Result<Option<usize>, Error> {
    let launched = Launched::of(variable)?;
    Ok(launched.map(|launched| launched.n_ranks).or(expected()?))
}

pub(super) fn expected() -> Result<Option<usize>, Error> {
    let wrong = |value| {
        let text = format!("{EXPECTED} is {value:?} (a number is needed)");
        Error::wrong_launcher(text)
    };
    variable(EXPECTED)
        .map(|value| value.parse().map_err(|_| wrong(value)))
        .transpose()
}

pub(super) fn nobody() -> Error {
    Error::wrong_settings("0 ranks run nothing (1 is needed)")
}

pub(super) fn were_asked(n_ranks: usize) -> String {
    match n_ranks {
        1 => "1 rank was asked for".into(),
        _ => format!("{n_ranks} ranks were asked for"),
    }
}

pub(super) fn were(many: usize) -> &'static str {
    if many == 1 { "was" } else { "were" }
}
