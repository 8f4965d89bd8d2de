//! Every future of the library can move to another thread: a gateway runs each conversation in a
//! task of its own.
//!
//! Compiling is the test. Each future is created inside of one that owns what it borrows, as in
//! `tokio::spawn`.

use std::path::Path;
use std::time::Duration;

use allowlist::{Allowlist, RuleChange};
use futures_util::StreamExt as _;
use sandbox::credentials::SecretReplacements;
use sandbox::diagnostics::VerifySpec;
use sandbox::executor::{ExecOptions, Executor};
use sandbox::image::ImageRequest;
use sandbox::network::{LogFollower, Question, Verdict};
use sandbox::runs::{LifecycleHooks, RunName, RunSpec, Runs};
use sandbox::{
    Command, ImageSource, Input, NetworkSandboxConfig, Prompt, Sandbox, SandboxConfig, Task, TerminalSize,
};

fn spawned<F: Future<Output: Send> + Send + 'static>(_: F) {}

/// Each line is a future that owns its receiver.
macro_rules! spawned {
    ($receiver:ident: $type:ty, $($call:expr;)*) => {
        $({
            let _ = |$receiver: $type| spawned(async move {
                let mut $receiver = $receiver;
                let _ = &mut $receiver;
                $call.await.map(drop)
            });
        })*
    };
}

trait Answer: Sized {
    fn map(self, _: fn(())) -> bool {
        true
    }
}

impl Answer for () {}
impl Answer for bool {}
impl<T> Answer for Vec<T> {}

#[test]
fn every_future_can_be_spawned() {
    let _ = |config: SandboxConfig| spawned(async { Sandbox::start(config).await.map(drop) });
    spawned!(sandbox: Sandbox,
        sandbox.prepare();
        sandbox.ensure_image(&ImageSource::existing("x"));
        sandbox.ensure_image(ImageRequest::new(&ImageSource::existing("x")).network_log_dir(Path::new("/x")).on_line(|_| {}));
        sandbox.image_tags(&ImageSource::existing("x"));
        sandbox.list_images();
        sandbox.prune_images(Duration::ZERO);
        sandbox.remove_image(&ImageSource::existing("x"));
        sandbox.save_images(&["x"], &mut tokio::io::sink());
        sandbox.load_images(tokio::io::empty());
        sandbox.engine_facts();
        sandbox.inventory();
        sandbox.stray_bridges();
        sandbox.sweep();
        sandbox.sweep_at_start();
        sandbox.remove_shared();
        sandbox.shutdown();
    );
    let _ = |sandbox: Sandbox, spec: VerifySpec| spawned(async move { sandbox.verify(spec).await.map(drop) });
    spawned!(task: Task,
        task.execute(Prompt::new("x"));
        task.set_policy(Allowlist::default());
        task.change_rule(&"x".parse().map(RuleChange::Allow).expect("a rule"));
        task.set_replacements(SecretReplacements::default());
        task.quarantine();
        task.stop();
        task.execute(Prompt::new("x")).collect::<Vec<_>>();
    );
    spawned!(command: Command,
        command.execute(Input::Empty);
        command.set_policy(Allowlist::default());
        command.change_rule(&"x".parse().map(RuleChange::Allow).expect("a rule"));
        command.set_replacements(SecretReplacements::default());
        command.quarantine();
        command.started();
        command.resize(TerminalSize { columns: 80, rows: 24 });
        command.stop();
        command.execute(Input::Empty).collect::<Vec<_>>();
    );
    spawned!(executor: Executor,
        executor.execute("x", ExecOptions::default());
        executor.write_file("/x", "x");
        executor.read_file("/x", 1);
        executor.cleanup();
    );
    let _ = |config: NetworkSandboxConfig| {
        spawned(async move {
            let asking = config.ask(async |_: Question| Verdict::No);
            tokio::task::yield_now().await;
            drop(asking);
        });
    };
    spawned!(follower: LogFollower, follower.next_line(););
    let _ =
        |runs: Runs, spec: RunSpec| spawned(async move { runs.run(spec, LifecycleHooks::default()).await });
    let _ = |runs: Runs, spec: RunSpec| {
        spawned(async move { runs.create(spec, LifecycleHooks::default()).await });
    };
    spawned!(of: (Runs, RunName),
        of.0.start(&of.1);
        of.0.copy_to(&of.1, Path::new("/x"), "/x");
        of.0.stream_logs(&of.1, None, |_| true);
        of.0.wait_until_ready(&of.1, None);
        of.0.wait_for_exit(&of.1, None);
        of.0.stop(std::slice::from_ref(&of.1));
        of.0.clean();
        of.0.names();
        of.0.set_policy(&of.1, Allowlist::default());
        of.0.set_replacements(&of.1, SecretReplacements::default());
        of.0.quarantine(&of.1);
    );
}
