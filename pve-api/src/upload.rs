//! Uploading a file to a storage, streamed.

use std::io;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt as _;

use crate::decode::decode;
use crate::endpoint;
use crate::error::Result;
use crate::id::Upid;
use crate::request::Request;
use crate::storage::Checksum;
use crate::storage::Content;
use crate::storage::Storage;
use crate::transport::Part;
use crate::transport::Parts;
use crate::transport::Unreadable;
use crate::transport::Upload;

/// A file to be uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadFile {
    /// What it is: [`Content::Iso`], [`Content::Import`] or [`Content::ContainerTemplate`].
    pub content: Content,
    /// The name that it gets; a file of that name is overwritten.
    pub file_name: String,
    /// Its length in bytes. A source that ends sooner or goes on is an error.
    pub length: u64,
    /// What it must agree with.
    pub checksum: Option<Checksum>,
}

/// So much is read at once.
const CHUNK: usize = 256 * 1024;

impl Storage<'_> {
    /// Uploads a file; `progress` hears how many bytes have gone out.
    ///
    /// `POST /nodes/{node}/storage/{storage}/upload`. The answer is a task. There is no limit to
    /// the time. The source must end after [`UploadFile::length`] bytes. Prefer an API token:
    /// servers have been seen to drop uploads of a session without an answer, which is
    /// [`Error::UnknownOutcome`](crate::Error::UnknownOutcome).
    pub async fn upload(
        &self,
        file: &UploadFile,
        source: impl AsyncRead + Send + 'static,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> Result<Upid> {
        let request = Request::new(&endpoint::UPLOAD, &[self.node, self.id]);
        let boundary = boundary(&file.file_name);
        let (head, tail) = frame(file, &boundary);
        let upload = Upload {
            content_type: format!("multipart/form-data; boundary={boundary}"),
            length: (head.len() + tail.len()) as u64 + file.length,
            parts: Parts::new(body(head, source, file.length, tail, progress)),
        };
        let answer = self.client.upload(&request, upload).await?;
        decode(&request.call, &answer)
    }
}

/// A line that cannot stand in the file by accident: too long to be guessed, and made for it.
fn boundary(file_name: &str) -> String {
    use sha2::Digest as _;

    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = format!("{file_name} {:?}", now.unwrap_or_default());
    format!("pve-api-{}", &hex::encode(sha2::Sha256::digest(seed))[..40])
}

/// What stands before and after the file.
fn frame(file: &UploadFile, boundary: &str) -> (String, String) {
    let field = |name: &str, value: &str| {
        format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        )
    };
    let mut head = field("content", file.content.as_str());
    if let Some(checksum) = &file.checksum {
        head += &field("checksum-algorithm", checksum.algorithm.as_str());
        head += &field("checksum", &checksum.sum);
    }
    // A quote or a line end in the name would end the header.
    let name: String = file
        .file_name
        .chars()
        .map(|c| if c == '"' || c == '\\' || c.is_control() { '_' } else { c })
        .collect();
    let part = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"{name}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    );
    head += &part;
    (head, format!("\r\n--{boundary}--\r\n"))
}

fn body(
    head: String,
    source: impl AsyncRead + Send + 'static,
    length: u64,
    tail: String,
    mut progress: impl FnMut(u64) + Send + 'static,
) -> impl Stream<Item = Part> + Send + 'static {
    // One byte more than promised is asked for, to see that there is none.
    let source: Pin<Box<dyn AsyncRead + Send>> = Box::pin(source.take(length.saturating_add(1)));
    let file = stream::try_unfold((source, 0), move |(mut source, sent)| async move {
        let mut chunk = Vec::with_capacity(CHUNK);
        let count = source.read_buf(&mut chunk).await.map_err(Unreadable)?;
        let sent = sent + count as u64;
        // Either way the end is not sent, and the server discards what it got.
        if sent > length {
            return Err(Unreadable(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the source is longer than the {length} bytes that were promised"),
            )));
        }
        if count == 0 && sent < length {
            return Err(Unreadable(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("the source ends after {sent} of the {length} bytes that were promised"),
            )));
        }
        Ok((count > 0).then(|| (Bytes::from(chunk), (source, sent))))
    });
    let mut sent = 0;
    let file = file.inspect(move |chunk: &Part| {
        if let Ok(chunk) = chunk {
            sent += chunk.len() as u64;
            progress(sent);
        }
    });
    let whole = |text: String| stream::once(async move { Ok(Bytes::from(text)) });
    whole(head).chain(file).chain(whole(tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_is_framed_as_a_form() {
        let file = UploadFile {
            content: Content::Import,
            file_name: "a\"b.qcow2".to_owned(),
            length: 3,
            checksum: Some(Checksum {
                algorithm: crate::storage::ChecksumAlgorithm::Sha256,
                sum: "00".to_owned(),
            }),
        };
        let (head, tail) = frame(&file, "BOUNDARY");
        insta::assert_snapshot!(format!("{head}123{tail}").replace("\r\n", "⏎\n"), @r#"
        --BOUNDARY⏎
        Content-Disposition: form-data; name="content"⏎
        ⏎
        import⏎
        --BOUNDARY⏎
        Content-Disposition: form-data; name="checksum-algorithm"⏎
        ⏎
        sha256⏎
        --BOUNDARY⏎
        Content-Disposition: form-data; name="checksum"⏎
        ⏎
        00⏎
        --BOUNDARY⏎
        Content-Disposition: form-data; name="filename"; filename="a_b.qcow2"⏎
        Content-Type: application/octet-stream⏎
        ⏎
        123⏎
        --BOUNDARY--⏎
        "#);
    }
}
