//! Calls about images.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::time::{Duration, SystemTime};

use bollard::models::{BuildInfo, ImageInspect};
use bollard::query_parameters::{
    ImportImageOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptionsBuilder,
};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::connection::{CALL_DEADLINE, Engine, IMAGE_DEADLINE, within};
use crate::error::{Cause, EngineError, printable};
use crate::image_facts::ImageFacts;

/// The delays in milliseconds before further attempts to read images while some are removed
/// concurrently.
const RACE_DELAYS: [u64; 5] = [5, 10, 50, 200, 500];

/// An image in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSummary {
    /// 64 hexadecimal digits.
    pub id: String,
    /// Its names.
    pub tags: Vec<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its creation time.
    pub created: SystemTime,
    /// Size in bytes, including layers shared with other images.
    pub size: u64,
}

impl Engine {
    /// The image of this name or id; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`]; also if `reference` is not a valid image name.
    pub async fn image(&self, reference: &str) -> Result<Option<ImageFacts>, EngineError> {
        for delay in RACE_DELAYS {
            match self.image_once(reference).await {
                // Podman 4 reads all images for the history of one.
                Err(error) if error.is_image_race() => look_again(&error, delay).await,
                found => return found,
            }
        }
        self.image_once(reference).await
    }

    /// Like [`image`](Self::image), but asks the engine only if no clone of this engine has seen the
    /// image with this id. The image may have been removed since.
    ///
    /// # Errors
    ///
    /// As for [`image`](Self::image).
    pub async fn image_with_id(&self, id: &str) -> Result<Option<ImageFacts>, EngineError> {
        match self.seen_images().get(id) {
            Some(image) => Ok(Some(image)),
            None => self.image(id).await,
        }
    }

    async fn image_once(&self, reference: &str) -> Result<Option<ImageFacts>, EngineError> {
        const OPERATION: &str = "inspect image";
        check(OPERATION, reference)?;
        let address = address(reference);
        match within(CALL_DEADLINE, OPERATION, reference, self.docker().inspect_image(&address)).await {
            Ok(inspect) => match facts(inspect) {
                Ok(facts) => {
                    self.seen_images().add(&facts);
                    Ok(Some(facts))
                }
                Err(problem) => {
                    Err(EngineError::new(OPERATION, reference, Cause::Answer(problem.to_owned())))
                }
            },
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The images that carry all of `labels` (`name=value`).
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`].
    pub async fn list_images(&self, labels: &[String]) -> Result<Vec<ImageSummary>, EngineError> {
        for delay in RACE_DELAYS {
            match self.list_images_once(labels).await {
                Err(error) if error.is_image_race() => look_again(&error, delay).await,
                listed => return listed,
            }
        }
        self.list_images_once(labels).await
    }

    async fn list_images_once(&self, labels: &[String]) -> Result<Vec<ImageSummary>, EngineError> {
        const OPERATION: &str = "list images with";
        let object = labels.join(" ");
        let filters = HashMap::from([("label".to_owned(), labels.to_vec())]);
        let options = ListImagesOptionsBuilder::default().filters(&filters).build();
        let found =
            within(CALL_DEADLINE, OPERATION, &object, self.docker().list_images(Some(options))).await?;
        let summary = |found: bollard::models::ImageSummary| {
            Some(ImageSummary {
                id: plain_id(&found.id)?,
                tags: found.repo_tags,
                labels: found.labels.into_iter().collect(),
                created: OffsetDateTime::from_unix_timestamp(found.created).ok()?.into(),
                size: u64::try_from(found.size).ok()?,
            })
        };
        found.into_iter().map(summary).collect::<Option<_>>().ok_or_else(|| {
            EngineError::new(
                OPERATION,
                object,
                Cause::Answer("an image lacks its id, time or size".to_owned()),
            )
        })
    }

    /// Removes a name of an image, and the image with its last name; succeeds if it does not exist.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`]; also if a container uses the image, or `reference` is
    /// not a valid image name.
    pub async fn remove_image(&self, reference: &str) -> Result<(), EngineError> {
        const OPERATION: &str = "remove image";
        check(OPERATION, reference)?;
        let options = RemoveImageOptionsBuilder::default().build();
        match within(
            CALL_DEADLINE,
            OPERATION,
            reference,
            self.docker().remove_image(reference, Some(options), None),
        )
        .await
        {
            Err(error) if error.is_not_found() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Writes the images `references`, with their names, to `writer` as one archive.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`]; also if `writer` fails, or a reference is not a valid
    /// image name.
    pub async fn export_images(
        &self,
        references: &[&str],
        writer: &mut (dyn AsyncWrite + Send + Unpin),
    ) -> Result<(), EngineError> {
        const OPERATION: &str = "save images";
        let object = references.join(" ");
        for reference in references {
            check(OPERATION, reference)?;
        }
        let local = |error| EngineError::new(OPERATION, object.as_str(), Cause::Local(error));
        let mut pieces = self.docker().export_images(references);
        while let Some(piece) = within(CALL_DEADLINE, OPERATION, &object, pieces.try_next()).await? {
            writer.write_all(&piece).await.map_err(local)?;
        }
        writer.flush().await.map_err(local)
    }

    /// Loads the images of an archive and returns their names.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`]; also if `reader` fails, or the archive contains no
    /// image.
    pub async fn load_images(
        &self,
        reader: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<Vec<String>, EngineError> {
        const OPERATION: &str = "load images from";
        const OBJECT: &str = "archive";
        let options = ImportImageOptionsBuilder::default().quiet(true).build();
        let mut answers = self.docker_for_images().import_image_stream(options, pieces(reader), None).boxed();
        let mut tags = Vec::new();
        let load = async {
            while let Some(BuildInfo { stream, error_detail, .. }) = answers.try_next().await? {
                if let Some(message) = error_detail.and_then(|detail| detail.message) {
                    return Err(bollard::errors::Error::DockerStreamError { error: message });
                }
                tags.extend(stream.iter().flat_map(|text| text.lines()).flat_map(loaded));
            }
            Ok(())
        };
        within(IMAGE_DEADLINE, OPERATION, OBJECT, load).await?;
        if tags.is_empty() {
            let cause = Cause::Answer("it names no image; is the file an archive of images?".to_owned());
            return Err(EngineError::new(OPERATION, OBJECT, cause));
        }
        Ok(tags)
    }
}

/// Waits before another attempt: an image disappeared during the last one.
async fn look_again(error: &EngineError, milliseconds: u64) {
    tracing::debug!(%error, "looking again");
    // tidy: sleep: podman does not report when a removal is complete
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// The names in a line such as `Loaded image: localhost/x:1,localhost/y:1`.
fn loaded(line: &str) -> Vec<String> {
    let names = line
        .strip_prefix("Loaded image(s): ")
        .or_else(|| line.strip_prefix("Loaded image: "))
        .unwrap_or_default();
    names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Turns a reader into a stream of pieces.
fn pieces(
    reader: impl AsyncRead + Send + Unpin + 'static,
) -> impl Stream<Item = Result<Bytes, io::Error>> + Send + 'static {
    const PIECE: usize = 256 * 1024;
    futures_util::stream::try_unfold(reader, async |mut reader| {
        let mut piece = BytesMut::with_capacity(PIECE);
        let read = reader.read_buf(&mut piece).await?;
        Ok((read > 0).then(|| (piece.freeze(), reader)))
    })
}

/// A reference becomes part of a request path, so it must contain nothing else.
pub(crate) fn check(operation: &'static str, reference: &str) -> Result<(), EngineError> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._/:@-".contains(c);
    if !reference.is_empty()
        && reference.chars().all(good)
        && !reference.contains("..")
        && !reference.starts_with('/')
    {
        return Ok(());
    }
    Err(EngineError::new(
        operation,
        printable(reference),
        Cause::Refused("that is not the name of an image".to_owned()),
    ))
}

/// For an unknown id, podman reports "not found" only if it is marked as an id.
fn address(reference: &str) -> Cow<'_, str> {
    match plain_id(reference) {
        Some(id) => Cow::Owned(format!("sha256:{id}")),
        None => Cow::Borrowed(reference),
    }
}

pub(crate) fn plain_id(id: &str) -> Option<String> {
    let digits = id.strip_prefix("sha256:").unwrap_or(id);
    (digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| digits.to_owned())
}

fn facts(inspect: ImageInspect) -> Result<ImageFacts, &'static str> {
    let config = inspect.config.ok_or("it has no configuration")?;
    let created = inspect.created.ok_or("it has no time of creation")?;
    let created =
        OffsetDateTime::parse(&created, &Rfc3339).map_err(|_| "its time of creation is not a time")?;
    let variables = config.env.unwrap_or_default();
    Ok(ImageFacts {
        id: inspect.id.as_deref().and_then(plain_id).ok_or("it has no id")?,
        created: created.into(),
        labels: config.labels.unwrap_or_default().into_iter().collect(),
        entrypoint: config.entrypoint.unwrap_or_default(),
        command: config.cmd.unwrap_or_default(),
        env: variables
            .iter()
            .filter_map(|variable| variable.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        working_dir: config.working_dir.unwrap_or_default(),
        user: config.user.unwrap_or_default(),
        architecture: inspect.architecture.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_cannot_change_the_request_path() {
        for (reference, good) in [
            ("localhost/sandbox-base:bookworm", true),
            ("registry.example:5000/a/b@sha256:0f", true),
            ("", false),
            ("a b", false),
            ("a?x=1", false),
            ("a%2f", false),
            ("../containers", false),
            ("/x", false),
            ("a\nb", false),
        ] {
            assert_eq!(check("inspect image", reference).is_ok(), good, "{reference:?}");
        }
    }

    #[test]
    fn id_is_marked_as_an_id() {
        let id = "0f".repeat(32);
        let marked = format!("sha256:{id}");
        assert_eq!((&*address(&id), &*address(&marked)), (&*marked, &*marked));
        assert_eq!(address("localhost/x:1"), "localhost/x:1");
    }

    #[test]
    fn names_of_loaded_images_are_read_for_both_versions() {
        assert_eq!(loaded("Loaded image: localhost/a:1"), ["localhost/a:1"]);
        assert_eq!(
            loaded("Loaded image(s): localhost/a:1,localhost/b:2"),
            ["localhost/a:1", "localhost/b:2"]
        );
        assert!(loaded("Getting image source signatures").is_empty());
    }

    #[test]
    fn image_without_a_needed_field_is_an_error() {
        let whole = ImageInspect {
            id: Some(format!("sha256:{}", "0f".repeat(32))),
            created: Some("2026-11-21T09:44:05.125842226Z".to_owned()),
            config: Some(bollard::models::ImageConfig {
                env: Some(vec!["A=b=c".to_owned(), "broken".to_owned()]),
                ..Default::default()
            }),
            ..Default::default()
        };
        let facts_of_whole = facts(whole.clone()).unwrap();
        assert_eq!(facts_of_whole.id, "0f".repeat(32));
        assert_eq!(facts_of_whole.env, BTreeMap::from([("A".to_owned(), "b=c".to_owned())]));
        assert!(facts(ImageInspect { id: None, ..whole.clone() }).is_err());
        assert!(facts(ImageInspect { id: Some("sha256:0f".to_owned()), ..whole.clone() }).is_err());
        assert!(facts(ImageInspect { created: None, ..whole.clone() }).is_err());
        assert!(facts(ImageInspect { created: Some("yesterday".to_owned()), ..whole.clone() }).is_err());
        assert!(facts(ImageInspect { config: None, ..whole }).is_err());
    }
}
