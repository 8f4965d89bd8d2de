//! The model: events in the order of their time. Tasks wait in one queue; the controller starts them on
//! the node with the fewest tasks.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::outcome::{Cause, Outcome};
use super::parameters::Parameters;
use super::resources::{Limit, Line};

/// Runs until each task has a result or is given up.
pub(crate) fn simulate(parameters: &Parameters) -> Outcome {
    let mut cluster = Cluster::new(parameters);
    while cluster.open > 0
        && let Some(Reverse((at, _, epoch, event))) = cluster.events.pop()
    {
        let waited = at.as_secs_f64() - cluster.now;
        let queued = u32::try_from(cluster.queue.len()).unwrap_or(u32::MAX);
        cluster.outcome.wait(cluster.queue_waits_for, waited * f64::from(queued));
        cluster.now = at.as_secs_f64();
        if cluster.epoch(event) == epoch {
            cluster.handle(event);
        }
    }
    cluster.end()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    ControllerFree,
    /// Of the task with this index.
    Task(usize, Step),
    /// Of the node with this index.
    Node(usize, Change),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Queued,
    OnNode,
    BundleHere,
    /// A call that was refused so many times.
    Call(i32),
    Answered,
    ResultHere,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    ImageHere,
    Prepared,
    Failed,
    FailureNoticed,
    Back,
}

#[derive(Debug, Default)]
struct Task {
    /// Events of an earlier epoch are void.
    epoch: u32,
    node: usize,
    /// Since when it has a place.
    placed: f64,
    /// When its present wait began.
    since: f64,
    calls_left: u32,
    limited: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Image {
    Absent,
    Coming,
    Here,
}

#[derive(Debug)]
struct Node {
    epoch: u32,
    image: Image,
    tasks: Vec<usize>,
    /// Those of `tasks` that wait for the image.
    waiting: Vec<usize>,
}

struct Cluster<'a> {
    parameters: &'a Parameters,
    random: StdRng,
    now: f64,
    /// By time, then by the order in which they were made.
    events: BinaryHeap<Reverse<(Duration, u64, u32, Event)>>,
    made: u64,
    tasks: Vec<Task>,
    nodes: Vec<Node>,
    /// Nodes that can take a task, with the number of those that they have.
    free: BTreeSet<(usize, usize)>,
    queue: VecDeque<usize>,
    queue_waits_for: Cause,
    running: u32,
    /// Tasks that have neither a result nor are given up.
    open: u32,
    controller: Line,
    controller_busy: bool,
    link: Line,
    limit: Limit,
    /// Seconds in which tasks worked.
    worked: f64,
    last_arrival: f64,
    outcome: Outcome,
}

impl<'a> Cluster<'a> {
    fn new(parameters: &'a Parameters) -> Self {
        let image = if parameters.warm { Image::Here } else { Image::Absent };
        let node = |_| Node { epoch: 0, image, tasks: Vec::new(), waiting: Vec::new() };
        let nodes: Vec<Node> = (0..parameters.nodes).map(node).collect();
        let tasks: Vec<Task> = (0..parameters.tasks).map(|_| Task::default()).collect();
        let mut cluster = Self {
            parameters,
            random: StdRng::seed_from_u64(parameters.seed),
            now: 0.0,
            events: BinaryHeap::new(),
            made: 0,
            free: (0..nodes.len()).map(|node| (0, node)).collect(),
            outcome: Outcome { results: vec![0; tasks.len()], ..Outcome::default() },
            tasks,
            nodes,
            queue: VecDeque::new(),
            queue_waits_for: Cause::Place,
            running: 0,
            open: parameters.tasks,
            controller: Line::default(),
            controller_busy: false,
            link: Line::default(),
            limit: Limit::default(),
            worked: 0.0,
            last_arrival: 0.0,
        };
        for task in 0..cluster.tasks.len() {
            if parameters.arrivals > 0.0 {
                cluster.last_arrival += cluster.exponential(1.0 / parameters.arrivals);
            }
            cluster.after(cluster.last_arrival, Event::Task(task, Step::Queued));
        }
        for node in 0..cluster.nodes.len() {
            cluster.fail_some_time(node);
        }
        cluster
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::ControllerFree => self.controller_busy = false,
            Event::Task(task, step) => self.advance(task, step),
            Event::Node(node, Change::ImageHere) => {
                self.after(self.parameters.preparation, Event::Node(node, Change::Prepared));
            }
            Event::Node(node, Change::Prepared) => self.use_image(node),
            Event::Node(node, Change::Failed) => self.fail(node),
            Event::Node(node, Change::FailureNoticed) => self.notice(node),
            Event::Node(node, Change::Back) => {
                self.free.insert((0, node));
                self.fail_some_time(node);
            }
        }
        self.start_tasks();
    }

    fn advance(&mut self, task: usize, step: Step) {
        match step {
            Step::Queued => self.queue.push_back(task),
            Step::OnNode => self.take_image(task),
            Step::BundleHere => {
                self.waited(task, Cause::Files);
                self.worked += self.parameters.overhead;
                self.use_tools(task, self.parameters.overhead);
            }
            Step::Call(refused) => self.call(task, refused),
            Step::Answered => self.answered(task),
            Step::ResultHere => {
                self.waited(task, Cause::Files);
                self.leave(task);
                if let Some(results) = self.outcome.results.get_mut(task) {
                    *results += 1;
                }
                self.open -= 1;
            }
        }
    }

    /// Gives places to as many tasks as the controller can start now.
    fn start_tasks(&mut self) {
        self.queue_waits_for = Cause::Place;
        while self.running < self.parameters.at_once && !self.queue.is_empty() {
            let Some((_, node)) = self.free.first().copied() else { return };
            if self.controller_busy {
                self.queue_waits_for = Cause::Controller;
                return;
            }
            let Some(task) = self.queue.pop_front() else { return };
            self.running += 1;
            self.outcome.starts += 1;
            self.change_tasks(node, |tasks| tasks.push(task));
            let now = self.now;
            let calls_left = self.parameters.calls;
            let entry = self.task(task);
            *entry = Task { node, placed: now, since: now, calls_left, ..*entry };
            self.controller_busy = true;
            let served = self.controller.serve(now, 1.0 / self.parameters.start_rate);
            self.after(served, Event::ControllerFree);
            self.after(served + self.parameters.start_delay, Event::Task(task, Step::OnNode));
        }
    }

    fn take_image(&mut self, task: usize) {
        self.waited(task, Cause::Controller);
        let node_index = self.task(task).node;
        let node = self.node(node_index);
        match node.image {
            Image::Here => self.transfer(self.parameters.bundle, Event::Task(task, Step::BundleHere)),
            Image::Coming => node.waiting.push(task),
            Image::Absent => {
                node.waiting.push(task);
                node.image = Image::Coming;
                self.transfer(self.parameters.image, Event::Node(node_index, Change::ImageHere));
            }
        }
    }

    fn use_image(&mut self, node: usize) {
        let node = self.node(node);
        node.image = Image::Here;
        for task in std::mem::take(&mut node.waiting) {
            self.waited(task, Cause::Image);
            self.transfer(self.parameters.bundle, Event::Task(task, Step::BundleHere));
        }
    }

    fn use_tools(&mut self, task: usize, delay: f64) {
        let seconds = self.about(self.parameters.tools);
        self.worked += seconds;
        self.after(delay + seconds, Event::Task(task, Step::Call(0)));
    }

    fn call(&mut self, task: usize, refused: i32) {
        let parameters = self.parameters;
        if self.limit.admits(self.now, parameters.call_rate()) {
            let seconds = self.about(parameters.answer);
            self.worked += seconds;
            self.after(seconds, Event::Task(task, Step::Answered));
        } else if refused < parameters.retries {
            let delay = (parameters.retry_delay * 2_f64.powi(refused)).min(parameters.longest_retry_delay);
            let delay = delay * self.random.random_range(1.0..1.25);
            self.outcome.wait(Cause::Call, delay);
            self.after(delay, Event::Task(task, Step::Call(refused + 1)));
        } else {
            self.end_limited(task);
        }
    }

    fn answered(&mut self, task: usize) {
        let now = self.now;
        let entry = self.task(task);
        entry.calls_left -= 1;
        entry.since = now;
        if entry.calls_left > 0 {
            self.use_tools(task, 0.0);
        } else {
            self.transfer(self.parameters.result, Event::Task(task, Step::ResultHere));
        }
    }

    /// The agent ends with exit code 75, and its next attempt begins from the start.
    fn end_limited(&mut self, task: usize) {
        self.outcome.limited += 1;
        self.outcome.lost += self.leave(task);
        let entry = self.task(task);
        entry.limited += 1;
        let limited = entry.limited;
        if limited < self.parameters.attempts {
            let delay = self.parameters.attempt_delay * 2_f64.powi(limited - 1);
            let delay = delay * self.random.random_range(0.5..1.5);
            self.outcome.wait(Cause::Attempt, delay);
            self.after(delay, Event::Task(task, Step::Queued));
        } else {
            self.outcome.given_up += 1;
            self.open -= 1;
        }
    }

    /// Frees the place of `task`; returns how long it had it.
    fn leave(&mut self, task: usize) -> f64 {
        let now = self.now;
        let Task { node, placed, .. } = *self.task(task);
        self.change_tasks(node, |tasks| tasks.retain(|other| *other != task));
        self.running -= 1;
        self.outcome.held += now - placed;
        now - placed
    }

    /// The node's tasks end, but count as running until the failure is noticed.
    fn fail(&mut self, node: usize) {
        let now = self.now;
        let entry = self.node(node);
        entry.epoch += 1;
        entry.image = Image::Absent;
        entry.waiting.clear();
        let tasks = entry.tasks.clone();
        self.free.remove(&(tasks.len(), node));
        for task in tasks {
            let entry = self.task(task);
            entry.epoch += 1;
            entry.since = now;
            let held = now - entry.placed;
            self.outcome.failed += 1;
            self.outcome.held += held;
            self.outcome.lost += held;
        }
        self.after(self.parameters.notice, Event::Node(node, Change::FailureNoticed));
    }

    fn notice(&mut self, node: usize) {
        for task in std::mem::take(&mut self.node(node).tasks) {
            self.running -= 1;
            self.waited(task, Cause::Failure);
            self.outcome.wait(Cause::Failure, self.parameters.requeue_delay);
            self.after(self.parameters.requeue_delay, Event::Task(task, Step::Queued));
        }
        self.after(self.parameters.repair, Event::Node(node, Change::Back));
    }

    fn fail_some_time(&mut self, node: usize) {
        if self.parameters.failures > 0.0 {
            let seconds = self.exponential(self.parameters.failures);
            self.after(seconds, Event::Node(node, Change::Failed));
        }
    }

    fn end(mut self) -> Outcome {
        let used = [
            self.worked / self.parameters.places(),
            self.link.busy,
            self.controller.busy,
            self.limit.admitted / self.parameters.call_rate(),
            self.last_arrival,
        ];
        self.outcome.utilisation = used.map(|seconds| seconds / self.now.max(f64::EPSILON));
        self.outcome.makespan = self.now;
        self.outcome
    }

    fn transfer(&mut self, bytes: f64, event: Event) {
        let served = self.link.serve(self.now, bytes / self.parameters.bandwidth);
        self.after(served, event);
    }

    fn after(&mut self, seconds: f64, event: Event) {
        let at = Duration::from_secs_f64(self.now + seconds);
        let epoch = self.epoch(event);
        self.made += 1;
        self.events.push(Reverse((at, self.made, epoch, event)));
    }

    fn epoch(&mut self, event: Event) -> u32 {
        match event {
            Event::ControllerFree => 0,
            Event::Task(task, _) => self.task(task).epoch,
            Event::Node(node, _) => self.node(node).epoch,
        }
    }

    /// The wait of `task` for `cause` is over; the next one begins.
    fn waited(&mut self, task: usize, cause: Cause) {
        let now = self.now;
        let since = std::mem::replace(&mut self.task(task).since, now);
        self.outcome.wait(cause, now - since);
    }

    /// Changes the tasks of a node that works, and its place among the free ones.
    fn change_tasks(&mut self, node: usize, change: impl FnOnce(&mut Vec<usize>)) {
        let tasks = &mut self.node(node).tasks;
        let before = tasks.len();
        change(tasks);
        let after = tasks.len();
        self.free.remove(&(before, node));
        if u32::try_from(after).is_ok_and(|after| after < self.parameters.slots) {
            self.free.insert((after, node));
        }
    }

    fn about(&mut self, mean: f64) -> f64 {
        let spread = self.parameters.spread;
        mean * self.random.random_range(1.0 - spread..=1.0 + spread)
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.random.random::<f64>()).ln()
    }

    fn task(&mut self, index: usize) -> &mut Task {
        self.tasks.get_mut(index).expect("an event has the index of a task")
    }

    fn node(&mut self, index: usize) -> &mut Node {
        self.nodes.get_mut(index).expect("an event has the index of a node")
    }
}

#[cfg(test)]
mod tests;
