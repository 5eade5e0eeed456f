//! Completes a PDF file to PDF/A-2u, the form for archives whose text can be searched (ISO 19005-2). The library does not write PDF/A, so the
//! catalog, the metadata and the document information are completed here. Fonts are embedded with their character maps,
//! and the file refers to nothing outside.

use lopdf::{Dictionary, Document, Object, Stream, StringFormat};
use quick_xml::escape::escape;
use sha2::{Digest, Sha256};
use time::macros::format_description;

use super::About;

/// sRGB as a profile of 588 bytes, made with Little CMS; it is in the public domain.
const SRGB: &[u8] = include_bytes!("../../../assets/srgb.icc");
const PRODUCER: &str = "Ango";

/// Completes a file, and sets its identifier to a digest of its content.
pub(super) fn complete(file: &mut Document, about: &About<'_>) {
    "1.7".clone_into(&mut file.version);
    let intent = intent(file);
    let metadata = metadata(file, about);
    let catalog = file.catalog_mut().expect("a file has a catalog");
    catalog.set("OutputIntents", Object::Array(vec![intent]));
    catalog.set("Metadata", metadata);
    let mut viewer = Dictionary::new();
    viewer.set("DisplayDocTitle", true);
    catalog.set("ViewerPreferences", viewer);
    catalog.set("Lang", Object::string_literal("ja"));
    let info = info(about);
    let info = file.add_object(info);
    if let Ok(was) = file.trailer.get(b"Info").and_then(Object::as_reference) {
        file.objects.remove(&was);
    }
    file.trailer.set("Info", info);
    file.compress();
    let identifier = identifier(file);
    file.trailer.set("ID", vec![identifier.clone(), identifier]);
}

/// Makes the output intent, which states that colours are sRGB.
fn intent(file: &mut Document) -> Object {
    let mut of_profile = Dictionary::new();
    of_profile.set("N", 3);
    let profile = file.add_object(Stream::new(of_profile, SRGB.to_vec()));
    let mut intent = Dictionary::new();
    intent.set("Type", "OutputIntent");
    intent.set("S", "GTS_PDFA1");
    intent.set("OutputConditionIdentifier", Object::string_literal("sRGB"));
    intent.set("Info", Object::string_literal("sRGB"));
    intent.set("DestOutputProfile", profile);
    Object::Dictionary(intent)
}

/// Adds the metadata in XML (XMP), uncompressed, so that any program finds it.
fn metadata(file: &mut Document, about: &About<'_>) -> Object {
    let date = midnight(about);
    let date = date.format(format_description!("[year]-[month]-[day]T00:00:00+09:00")).expect("a date is written");
    let (title, author) = (escape(about.title), escape(about.author));
    let text = format!(
        "<?xpacket begin=\"\u{feff}\" id=\"W5M0MpCehiHzreSzNTczkc9d\"?>\n\
         <x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">\n\
         <rdf:Description rdf:about=\"\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\" xmlns:xmp=\"http://ns.adobe.com/xap/1.0/\" \
         xmlns:pdf=\"http://ns.adobe.com/pdf/1.3/\" xmlns:pdfaid=\"http://www.aiim.org/pdfa/ns/id/\">\n\
         <pdfaid:part>2</pdfaid:part><pdfaid:conformance>U</pdfaid:conformance>\n\
         <dc:format>application/pdf</dc:format>\n\
         <dc:title><rdf:Alt><rdf:li xml:lang=\"x-default\">{title}</rdf:li></rdf:Alt></dc:title>\n\
         <dc:creator><rdf:Seq><rdf:li>{author}</rdf:li></rdf:Seq></dc:creator>\n\
         <xmp:CreateDate>{date}</xmp:CreateDate><xmp:ModifyDate>{date}</xmp:ModifyDate>\n\
         <pdf:Producer>{PRODUCER}</pdf:Producer>\n\
         </rdf:Description></rdf:RDF></x:xmpmeta>\n<?xpacket end=\"w\"?>"
    );
    let mut dictionary = Dictionary::new();
    dictionary.set("Type", "Metadata");
    dictionary.set("Subtype", "XML");
    let stream = Stream::new(dictionary, text.into_bytes()).with_compression(false);
    file.add_object(stream).into()
}

/// Makes the document information, which older programs read. It has the same values as [`metadata`].
fn info(about: &About<'_>) -> Dictionary {
    let date = midnight(about);
    let date = date.format(format_description!("D:[year][month][day]000000+09'00'")).expect("a date is written");
    let mut info = Dictionary::new();
    info.set("Title", lopdf::text_string(about.title));
    info.set("Author", lopdf::text_string(about.author));
    info.set("Producer", Object::string_literal(PRODUCER));
    info.set("CreationDate", Object::string_literal(date.clone()));
    info.set("ModDate", Object::string_literal(date));
    info
}

fn midnight(about: &About<'_>) -> time::PrimitiveDateTime {
    about.date.midnight()
}

/// Computes the identifier: a digest of the file without an identifier.
fn identifier(file: &mut Document) -> Object {
    file.trailer.remove(b"ID");
    let digest = Sha256::digest(super::bytes(file));
    Object::String(digest[..16].to_vec(), StringFormat::Hexadecimal)
}
