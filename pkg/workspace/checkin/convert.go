package checkin

import (
	"bytes"
	"regexp"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/unicode"
)

// lineEnds is how CRLF is converted to LF.
type lineEnds int

const (
	undefined lineEnds = iota
	never
	always
	ofText // if the content is text, and the stored one has no CRLF
)

// Conversion is the change that git makes to a file's content before it stores it.
type Conversion struct {
	// Driver is the filter driver that git would run, "" without one. [Conversion.Apply] does not run it.
	Driver string
	// LFS reports whether the file is stored in git-lfs: git has a pointer to it.
	LFS bool

	lines    lineEnds
	ident    bool
	encoding string
}

// None reports whether git stores the content as it is.
func (c Conversion) None() bool {
	return c.Driver == "" && !c.LFS && c.lines <= never && !c.ident && c.encoding == ""
}

// Apply returns data as git would store it in the place of stored, without the work of a filter driver.
func (c Conversion) Apply(data, stored []byte) []byte {
	data = c.decode(data)
	switch c.lines {
	case always:
		data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	case ofText:
		if is, _ := text(data); is && !hasCRLF(stored) {
			data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
		}
	}
	if c.ident {
		data = identity.ReplaceAll(data, []byte("$$Id$$"))
	}
	return data
}

// identity matches an expanded $Id$.
var identity = regexp.MustCompile(`\$Id:[^$\n]*\$`)

// decode returns data in UTF-8; as it is if its encoding is not known or does not fit.
func (c Conversion) decode(data []byte) []byte {
	if c.encoding == "" {
		return data
	}
	from := encodingOf(c.encoding)
	if from == nil {
		return data
	}
	decoded, err := from.NewDecoder().Bytes(data)
	if err != nil {
		return data
	}
	return decoded
}

// encodingOf returns an encoding by the name that git knows, nil for an unknown one.
func encodingOf(name string) encoding.Encoding {
	switch strings.ToUpper(name) {
	case "UTF-8", "UTF8":
		return nil
	case "UTF-16", "UTF16":
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	case "UTF-16LE-BOM":
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	}
	e, err := ianaindex.IANA.Encoding(name)
	if err != nil {
		return nil
	}
	return e
}

// text reports whether git takes data for text, and whether a line of it ends with CRLF.
func text(data []byte) (is, crlf bool) {
	var printable, odd int
	for i, b := range data {
		switch {
		case b == '\r' && i+1 < len(data) && data[i+1] == '\n':
			crlf = true
		case b == '\r', b == 0:
			return false, crlf
		case b == '\n':
		case b == '\b', b == '\t', b == '\033', b == '\f':
			printable++
		case b < ' ', b == 127:
			odd++
		default:
			printable++
		}
	}
	if len(data) > 0 && data[len(data)-1] == '\032' { // the end of a file of DOS
		odd--
	}
	return printable>>7 >= odd, crlf
}

// hasCRLF reports whether stored content is text with CRLF, which git leaves alone.
func hasCRLF(stored []byte) bool {
	is, crlf := text(stored)
	return is && crlf
}
