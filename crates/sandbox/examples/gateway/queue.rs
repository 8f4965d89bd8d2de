//! The queue, in `PostgreSQL`: who answers which message, and until when.
//!
//! A worker that claims a message gets an *epoch*, higher than all before it, and a *lease*. Only
//! the newest epoch of a message can extend the lease, report a control as applied or store the
//! answer, and the answer is stored once. The database's clock decides when a lease is over.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, NoTls, Row};

use crate::worker::say;

/// The time after which another worker may claim the message of one that is silent.
pub(crate) const LEASE: Duration = Duration::from_secs(6);
/// The maximum duration of a query.
const QUERY: Duration = Duration::from_secs(30);
/// The longest wait until a control is applied.
const PATIENCE: Duration = Duration::from_mins(1);

/// In one transaction, in which processes take turns.
const SCHEMA: &str = "
    SELECT pg_advisory_xact_lock(hashtext('gateway'));
    CREATE SEQUENCE IF NOT EXISTS epochs;
    CREATE TABLE IF NOT EXISTS conversations (
        id text PRIMARY KEY,
        allowlist text NOT NULL,
        timeout_s bigint NOT NULL,
        session bigint  -- the epoch whose folder has the session
    );
    CREATE TABLE IF NOT EXISTS messages (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        conversation text NOT NULL REFERENCES conversations,
        prompt text NOT NULL,
        allowlist text NOT NULL,
        epoch bigint NOT NULL DEFAULT 0,
        lease timestamptz NOT NULL DEFAULT now(),
        events bigint NOT NULL DEFAULT 0,
        stop boolean NOT NULL DEFAULT false,
        quarantine boolean NOT NULL DEFAULT false,
        controls bigint NOT NULL DEFAULT 0,
        applied bigint NOT NULL DEFAULT 0,
        answer text
    );
    CREATE UNIQUE INDEX IF NOT EXISTS unanswered ON messages (conversation) WHERE answer IS NULL;
    LISTEN work; LISTEN controls; LISTEN answers;";

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// A connection to the queue.
pub(crate) struct Queue {
    client: Client,
    /// There may be a message to claim.
    pub(crate) work: watch::Receiver<()>,
    /// There may be a control to apply.
    pub(crate) controls: watch::Receiver<()>,
    /// A control was applied, or an answer was stored.
    answers: watch::Receiver<()>,
}

/// A message that this process answers, for as long as its epoch is the newest.
pub(crate) struct Claim {
    pub(crate) message: i64,
    pub(crate) epoch: i64,
    pub(crate) conversation: String,
    pub(crate) prompt: String,
    /// The epoch whose folder has the session; `None` for the first message.
    pub(crate) session: Option<i64>,
    pub(crate) timeout_s: i64,
    pub(crate) controls: Controls,
}

/// All controls of a message so far. They also hold for a later attempt to answer it.
#[derive(Clone)]
pub(crate) struct Controls {
    pub(crate) stop: bool,
    pub(crate) quarantine: bool,
    pub(crate) allowlist: String,
    /// The number of controls.
    pub(crate) count: i64,
}

/// What a client wants of the execution that answers a message.
pub(crate) enum Control<'a> {
    Stop,
    Quarantine,
    Policy(&'a str),
}

/// What became of a control.
pub(crate) enum Controlled {
    Applied,
    /// The message was answered.
    Ended,
    /// Nothing changes the policy of a quarantined execution.
    Quarantined,
    /// It is stored, and not applied yet.
    Waiting,
    /// No message of the conversation waits for its answer.
    Idle,
}

/// The newest message of a conversation.
pub(crate) struct Newest {
    pub(crate) running: bool,
    pub(crate) events: i64,
    pub(crate) answer: Option<String>,
}

impl Queue {
    pub(crate) async fn connect(database: &str) -> Result<Self, Error> {
        let (client, mut connection) = tokio_postgres::connect(database, NoTls).await?;
        let ((work_sender, work), (control_sender, controls), (answer_sender, answers)) =
            (watch::channel(()), watch::channel(()), watch::channel(()));
        // With the end of the connection, the senders are dropped.
        tokio::spawn(async move {
            while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    Ok(AsyncMessage::Notification(notification)) => match notification.channel() {
                        "work" => work_sender.send_replace(()),
                        "controls" => control_sender.send_replace(()),
                        _ => answer_sender.send_replace(()),
                    },
                    Ok(_) => {}
                    Err(error) => return say(&format!("lost the database: {error}")),
                }
            }
        });
        timeout(PATIENCE, client.batch_execute(SCHEMA)).await??;
        Ok(Self { client, work, controls, answers })
    }

    /// Returns `false` if the conversation exists.
    pub(crate) async fn create(&self, id: &str, allowlist: &str, timeout_s: i64) -> Result<bool, Error> {
        let insert = "INSERT INTO conversations (id, allowlist, timeout_s) VALUES ($1, $2, $3)
            ON CONFLICT DO NOTHING RETURNING id";
        Ok(self.row(insert, &[&id, &allowlist, &timeout_s]).await?.is_some())
    }

    /// Returns `false` while another message of the conversation waits for its answer.
    pub(crate) async fn ask(&self, id: &str, prompt: &str) -> Result<bool, Error> {
        let insert = "WITH asked AS (
                INSERT INTO messages (conversation, prompt, allowlist)
                SELECT id, $2, allowlist FROM conversations WHERE id = $1
                ON CONFLICT DO NOTHING RETURNING id)
            SELECT pg_notify('work', '') FROM asked";
        Ok(self.row(insert, &[&id, &prompt]).await?.is_some())
    }

    /// The newest message of a conversation; `None` if there is no such conversation.
    pub(crate) async fn newest(&self, id: &str) -> Result<Option<Newest>, Error> {
        let select = "SELECT message IS NOT NULL AND answer IS NULL, coalesce(events, 0), answer
            FROM conversations LEFT JOIN (
                SELECT id AS message, conversation, events, answer FROM messages
                WHERE conversation = $1 ORDER BY id DESC LIMIT 1) newest ON conversation = conversations.id
            WHERE conversations.id = $1";
        let row = self.row(select, &[&id]).await?;
        row.map(|row| {
            Ok(Newest { running: row.try_get(0)?, events: row.try_get(1)?, answer: row.try_get(2)? })
        })
        .transpose()
    }

    /// Claims the oldest message that nobody answers.
    pub(crate) async fn claim(&self) -> Result<Option<Claim>, Error> {
        // The session is that of the message before: a message is inserted after that was answered.
        let update = "UPDATE messages
            SET epoch = nextval('epochs'), lease = now() + make_interval(secs => $1), events = 0
            FROM conversations WHERE conversation = conversations.id AND messages.id = (
                SELECT id FROM messages WHERE answer IS NULL AND lease <= now()
                ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
            RETURNING stop, quarantine, messages.allowlist, controls,
                messages.id, epoch, conversation, prompt, session, timeout_s";
        let row = self.row(update, &[&LEASE.as_secs_f64()]).await?;
        row.map(|row| {
            Ok(Claim {
                controls: Controls::read(&row)?,
                message: row.try_get(4)?,
                epoch: row.try_get(5)?,
                conversation: row.try_get(6)?,
                prompt: row.try_get(7)?,
                session: row.try_get(8)?,
                timeout_s: row.try_get(9)?,
            })
        })
        .transpose()
    }

    /// The time until a lease ends; `None` while all messages are answered.
    pub(crate) async fn next_end(&self) -> Result<Option<Duration>, Error> {
        let select = "SELECT greatest(extract(epoch FROM min(lease) - now())::float8, 0.1)
            FROM messages WHERE answer IS NULL HAVING count(*) > 0";
        let seconds = self.row(select, &[]).await?.map(|row| row.try_get(0)).transpose()?;
        Ok(seconds.map(Duration::try_from_secs_f64).transpose()?)
    }

    /// Extends the lease, and returns the controls; `None` if it was lost.
    pub(crate) async fn extend(&self, claim: &Claim, events: i64) -> Result<Option<Controls>, Error> {
        let update = "UPDATE messages SET lease = now() + make_interval(secs => $3), events = $4
            WHERE id = $1 AND epoch = $2 AND answer IS NULL RETURNING stop, quarantine, allowlist, controls";
        let parameters: [&(dyn ToSql + Sync); 4] =
            [&claim.message, &claim.epoch, &LEASE.as_secs_f64(), &events];
        self.row(update, &parameters).await?.map(|row| Controls::read(&row)).transpose()
    }

    /// Reports that the first `count` controls are applied.
    pub(crate) async fn report_applied(&self, claim: &Claim, count: i64) -> Result<(), Error> {
        let update = "WITH reported AS (UPDATE messages SET applied = $3
                WHERE id = $1 AND epoch = $2 AND answer IS NULL RETURNING id)
            SELECT pg_notify('answers', '') FROM reported";
        self.row(update, &[&claim.message, &claim.epoch, &count]).await.map(drop)
    }

    /// Stores the answer, and makes the folder of `session` that of the conversation, both or
    /// neither. Returns `false` if the lease was lost.
    pub(crate) async fn store(
        &self,
        claim: &Claim,
        answer: &str,
        events: i64,
        session: Option<i64>,
    ) -> Result<bool, Error> {
        let update = "WITH answered AS (UPDATE messages SET answer = $3, events = $4
                WHERE id = $1 AND epoch = $2 AND answer IS NULL RETURNING conversation),
            kept AS (UPDATE conversations SET session = $5
                WHERE id = (SELECT conversation FROM answered))
            SELECT pg_notify('answers', '') FROM answered";
        let parameters: [&(dyn ToSql + Sync); 5] = [&claim.message, &claim.epoch, &answer, &events, &session];
        Ok(self.row(update, &parameters).await?.is_some())
    }

    /// Gives the message back.
    pub(crate) async fn release(&self, claim: &Claim) -> Result<(), Error> {
        let update = "WITH released AS (UPDATE messages SET lease = now()
                WHERE id = $1 AND epoch = $2 AND answer IS NULL RETURNING id)
            SELECT pg_notify('work', '') FROM released";
        self.row(update, &[&claim.message, &claim.epoch]).await.map(drop)
    }

    /// Stores a control for the message that waits for its answer, and waits until it is applied: a
    /// stop, until the answer is stored.
    pub(crate) async fn control(&self, id: &str, control: Control<'_>) -> Result<Controlled, Error> {
        let (stop, quarantine) = (matches!(control, Control::Stop), matches!(control, Control::Quarantine));
        let policy = if let Control::Policy(policy) = control { Some(policy) } else { None };
        let update = "WITH stored AS (UPDATE messages SET controls = controls + 1, stop = stop OR $2,
                quarantine = quarantine OR $3, allowlist = coalesce($4, allowlist)
                WHERE conversation = $1 AND answer IS NULL RETURNING id, controls, quarantine)
            SELECT id, controls, quarantine, pg_notify('controls', '') FROM stored";
        let Some(row) = self.row(update, &[&id, &stop, &quarantine, &policy]).await? else {
            return Ok(Controlled::Idle);
        };
        let (message, count): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        if policy.is_some() && row.try_get(2)? {
            return Ok(Controlled::Quarantined);
        }
        let select = "SELECT answer IS NOT NULL, applied >= $2 FROM messages WHERE id = $1";
        let mut answers = self.answers.clone();
        let ended = timeout(PATIENCE, async {
            loop {
                answers.mark_unchanged();
                let row = self.row(select, &[&message, &count]).await?.ok_or("the message is gone")?;
                if row.try_get(0)? {
                    return Ok(Controlled::Ended);
                }
                if !stop && row.try_get(1)? {
                    return Ok(Controlled::Applied);
                }
                answers.changed().await?;
            }
        });
        ended.await.unwrap_or(Ok(Controlled::Waiting))
    }

    /// The only row of a statement, if it has one.
    async fn row(&self, statement: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Option<Row>, Error> {
        Ok(timeout(QUERY, self.client.query_opt(statement, parameters)).await??)
    }
}

impl Controls {
    fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            stop: row.try_get(0)?,
            quarantine: row.try_get(1)?,
            allowlist: row.try_get(2)?,
            count: row.try_get(3)?,
        })
    }
}
