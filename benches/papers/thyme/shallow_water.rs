//! Shallow water: 163,842 nodes in blocks of 512, 20 steps; not in the paper.

use super::sphere::{self, Places, Sphere};
use super::{Application, Outcome, Part, RANKS};
use std::time::Duration;

pub struct Waves(Sphere);

impl Waves {
    pub fn new(quick: bool) -> Outcome<Self> {
        let (nodes, nb, steps) = if quick {
            (40_962, 256, 5)
        } else {
            (163_842, 512, 20)
        };
        let mesh = sphere::mesh(Places::Icosahedral, nodes)?;
        Ok(Waves(Sphere::new(&mesh, nb, RANKS, steps)))
    }
}

impl Application for Waves {
    fn title(&self) -> String {
        let Waves(sphere) = self;
        let (nodes, nb, steps) = (sphere.n_nodes(), sphere.nb(), sphere.steps);
        format!("shallow_water, {nodes} nodes in blocks of {nb}, {steps} steps")
    }

    fn play(&self, part: &Part<'_>) -> Outcome<Duration> {
        let Waves(sphere) = self;
        let bytes = |task, flow| sphere.bytes(task, flow);
        part.of(&sphere.space(), &bytes, &|task| sphere.flops(task))
    }
}
