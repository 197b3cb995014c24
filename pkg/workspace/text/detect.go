// Package text tells text from binary, reads the encodings text comes in, and cuts text without breaking characters.
package text

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// HeadSize is the number of bytes that decide the kind of a file, as in git.
const HeadSize = 8000

// Sniffer names the content type of a file by its first bytes, as net/http.DetectContentType does.
type Sniffer func(head []byte) string

// Binary reports whether a file that begins with head is binary, and its content type. UTF-16 with a byte order mark is
// text. Formats that can begin like text (a bitmap's "BM") count as binary only if the head is not valid UTF-8.
func Binary(head []byte, sniff Sniffer) (bool, string) {
	mime := sniff(head)
	if EncodingOf(head) != UTF8 {
		return false, mime
	}
	switch {
	case bytes.IndexByte(head, 0) >= 0:
		if strings.HasPrefix(mime, "text/") {
			mime = "application/octet-stream"
		}
		return true, mime
	case mime == "application/pdf":
		return true, mime
	case strings.HasPrefix(mime, "text/"):
		return false, mime
	}
	return !validHead(head), mime
}

// validHead reports whether head is UTF-8, but for a last character that was cut where a longer file goes on.
func validHead(head []byte) bool {
	if len(head) == HeadSize {
		head = head[:whole(head)]
	}
	return utf8.Valid(head)
}

// whole returns how much of data is left without the beginning of a character at its end.
func whole(data []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(data); back++ {
		if at := len(data) - back; utf8.RuneStart(data[at]) {
			if !utf8.FullRune(data[at:]) {
				return at
			}
			break
		}
	}
	return len(data)
}
