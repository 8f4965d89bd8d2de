//! The destination of the records of one proxy: the files, the caller, both or none.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use sandbox_proxy_protocol::Record;

use crate::entry::LogEntry;
use crate::error::LogError;
use crate::fold::{Fold, Line};
use crate::writer::LogWriter;

/// Called with each event and its line of the text log, in order. It must not block.
pub type RecordCallback = Arc<dyn Fn(&LogEntry, &str) + Send + Sync>;

/// Takes the records of one proxy. The default one neither writes nor calls.
#[derive(Default)]
pub struct LogSink {
    writer: Option<LogWriter>,
    fold: Fold,
    callback: Option<RecordCallback>,
}

impl LogSink {
    /// Writes to the files in `dir`, which are created where they are missing, as is `dir`. Blocks.
    ///
    /// # Errors
    ///
    /// If a file cannot be opened, or is a link or anything else that is not a regular file.
    pub fn open(dir: &Path) -> Result<Self, LogError> {
        Ok(Self { writer: Some(LogWriter::open(dir)?), ..Self::default() })
    }

    /// Whether room is bounded, as it is for files.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.writer.is_some()
    }

    /// Also calls `callback`.
    #[must_use]
    pub fn with_callback(self, callback: RecordCallback) -> Self {
        Self { callback: Some(callback), ..self }
    }

    /// Takes `records`; when it returns they are in the files, or counted as repetitions. With
    /// files it needs a tokio runtime.
    ///
    /// # Errors
    ///
    /// If the files cannot be written, or have no room for permitted requests; nothing is written
    /// afterwards.
    pub async fn append(&mut self, records: Vec<Record>) -> Result<(), LogError> {
        let lines = self.fold.add(records);
        self.log(lines).await
    }

    /// Writes the counts so far, and how many records are missing from the files, at `at_ms`
    /// (milliseconds since the Unix epoch).
    ///
    /// # Errors
    ///
    /// If the files cannot be written.
    pub async fn finish(&mut self, at_ms: u64) -> Result<(), LogError> {
        let lines = self.fold.finish();
        self.log(lines).await?;
        self.write(move |writer| writer.finish(at_ms)).await
    }

    async fn log(&mut self, lines: Vec<Line>) -> Result<(), LogError> {
        if let Some(callback) = &self.callback {
            for line in &lines {
                callback(&line.entry, &line.text);
            }
        }
        self.write(move |writer| writer.append(&lines)).await
    }

    async fn write(
        &mut self,
        work: impl FnOnce(&mut LogWriter) -> Result<(), LogError> + Send + 'static,
    ) -> Result<(), LogError> {
        let Some(mut writer) = self.writer.take() else {
            return Ok(());
        };
        let written = tokio::task::spawn_blocking(move || work(&mut writer).map(|()| writer)).await;
        let lost = |gone: tokio::task::JoinError| LogError::file("write to", crate::TEXT_NAME)(gone.into());
        self.writer = Some(written.map_err(lost)??);
        Ok(())
    }
}

impl fmt::Debug for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSink").field("writer", &self.writer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use sandbox_proxy_protocol::Event;

    use super::*;

    #[tokio::test]
    async fn callback_sees_the_lines_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        // Filled by the callback, read after the last record.
        let seen = Arc::new(Mutex::new(String::new()));
        let lines = Arc::clone(&seen);
        let callback: RecordCallback = Arc::new(move |_, line| {
            let mut lines = lines.lock().unwrap();
            lines.push_str(line);
            lines.push('\n');
        });
        let mut sink = LogSink::open(dir.path()).unwrap().with_callback(callback);
        for text in ["a", "b"] {
            let event = Event::Warning { text: text.to_owned() };
            sink.append(vec![Record { at_ms: 0, event: event.clone() }, Record { at_ms: 1, event }])
                .await
                .unwrap();
        }
        let written = std::fs::read_to_string(dir.path().join(crate::TEXT_NAME)).unwrap();
        assert_eq!(*seen.lock().unwrap(), written);
        assert_eq!(written.lines().count(), 4);
    }
}
