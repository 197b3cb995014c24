package wirejson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/jsondepth"
)

// MaxDepth is the maximum nesting of objects and arrays for [Unmarshal].
const MaxDepth = jsondepth.Max

// Unmarshal replaces m by the message in data. It fails with fault.BadRequest if data is not one JSON value in UTF-8
// nested at most [MaxDepth] levels deep, and with fault.ValidationFailed if it does not fit m: details.fields then has
// the path of the field, and the HTTP status is 422 if the field is a number out of range. After an error the content
// of m is undefined.
func Unmarshal(data []byte, m proto.Message) error {
	if err := check(data); err != nil {
		return err
	}
	proto.Reset(m)
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	d := decoder{dec, data}
	tok, err := d.next()
	if err != nil {
		return err
	}
	return d.message(tok, m.ProtoReflect(), nil)
}

// path is the position of a value: within in, under a key or at an index. A nil path is the whole. Its text is only
// built for an error, because the texts of all paths together can be far longer than the JSON.
type path struct {
	in      *path
	key     string
	element bool
	index   int
}

// String formats the path for errors.
func (p *path) String() string {
	var up []*path
	for ; p != nil; p = p.in {
		up = append(up, p)
	}
	var b strings.Builder
	for _, p := range slices.Backward(up) {
		switch {
		case p.element:
			fmt.Fprintf(&b, "[%d]", p.index)
		case b.Len() > 0:
			b.WriteString("." + p.key)
		default:
			b.WriteString(p.key)
		}
	}
	return b.String()
}

// check finds syntax errors of data, so that the decoder walks only well-formed input.
func check(data []byte) error {
	if !utf8.Valid(data) {
		return fault.New(fault.BadRequest, "The JSON is not valid UTF-8.")
	}
	if jsondepth.Of(data) > MaxDepth {
		return fault.New(fault.BadRequest, "The JSON is nested more than %d levels deep.", MaxDepth)
	}
	var raw json.RawMessage
	err := json.Unmarshal(data, &raw)
	if err == nil {
		return nil
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fault.Wrap(err, fault.BadRequest, "The JSON does not parse at byte %d.", syntax.Offset).
			With("offset", syntax.Offset)
	}
	return fault.Wrap(err, fault.BadRequest, "The JSON does not parse.")
}

// decoder walks JSON that has passed check. Each method gets the first token of its value.
type decoder struct {
	dec  *json.Decoder
	data []byte // the whole text, for values that are kept as written
}

func (d decoder) next() (json.Token, error) {
	tok, err := d.dec.Token()
	if err != nil {
		return nil, fault.Wrap(err, fault.BadRequest, "The JSON does not parse.")
	}
	return tok, nil
}

func (d decoder) message(tok json.Token, m protoreflect.Message, at *path) error {
	switch v := m.Interface().(type) {
	case *structpb.Value:
		return d.value(tok, v, at)
	case *structpb.Struct:
		if tok != json.Delim('{') {
			return mismatch(at, "an object", tok)
		}
		return d.structure(v, at)
	case *structpb.ListValue:
		if tok != json.Delim('[') {
			return mismatch(at, "an array", tok)
		}
		return d.listValue(v, at)
	}
	if tok != json.Delim('{') {
		return mismatch(at, "an object", tok)
	}
	t := tableOf(m.Descriptor())
	seen := make([]bool, len(t.fields))
	return d.object(at, func(at *path, tok json.Token) error {
		i, known := t.byName[at.key]
		if !known {
			return d.skip(tok)
		}
		if seen[i] {
			return invalid(at, "%s is given twice.", at)
		}
		seen[i] = true
		return d.field(tok, &t.fields[i], m, at)
	})
}

// object decodes an object after its opening brace. It calls each for every key, with the first token of the value. As
// in array, each must not keep the path after it returns.
func (d decoder) object(in *path, each func(at *path, tok json.Token) error) error {
	at := &path{in: in}
	for d.dec.More() {
		key, err := d.next()
		if err != nil {
			return err
		}
		at.key, _ = key.(string)
		tok, err := d.next()
		if err != nil {
			return err
		}
		if err := each(at, tok); err != nil {
			return err
		}
	}
	_, err := d.next()
	return err
}

// array calls each for every element of the array whose opening bracket was just read, with its first token.
func (d decoder) array(in *path, each func(at *path, tok json.Token) error) error {
	at := &path{in: in, element: true}
	for ; d.dec.More(); at.index++ {
		tok, err := d.next()
		if err != nil {
			return err
		}
		if err := each(at, tok); err != nil {
			return err
		}
	}
	_, err := d.next()
	return err
}

// skip skips an unknown value.
func (d decoder) skip(tok json.Token) error {
	for open := 0; ; {
		switch tok {
		case json.Delim('{'), json.Delim('['):
			open++
		case json.Delim('}'), json.Delim(']'):
			open--
		}
		if open == 0 {
			return nil
		}
		var err error
		if tok, err = d.next(); err != nil {
			return err
		}
	}
}

func (d decoder) field(tok json.Token, f *field, m protoreflect.Message, at *path) error {
	if tok == nil && !f.holdsNull() {
		return nil
	}
	if oneof := f.fd.ContainingOneof(); f.member && m.WhichOneof(oneof) != nil {
		return invalid(at, "%s and %s exclude each other.", at, m.WhichOneof(oneof).Name())
	}
	switch {
	case f.list:
		return d.list(tok, f, m.Mutable(f.fd).List(), at)
	case f.mapped:
		return d.mapping(tok, f, m.Mutable(f.fd).Map(), at)
	case f.kind == protoreflect.MessageKind:
		return d.message(tok, m.Mutable(f.fd).Message(), at)
	case f.raw:
		raw, err := d.raw(tok)
		if err != nil {
			return err
		}
		m.Set(f.fd, protoreflect.ValueOfBytes(raw))
		return nil
	}
	v, err := scalar(tok, f.fd, f.enum, at)
	if err != nil {
		return err
	}
	m.Set(f.fd, v)
	return nil
}

// raw returns the value that begins with tok as written, without white space.
func (d decoder) raw(tok json.Token) ([]byte, error) {
	delim, nested := tok.(json.Delim)
	if !nested {
		return json.Marshal(tok)
	}
	start := int(d.dec.InputOffset()) - len(delim.String())
	if err := d.skip(tok); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err := json.Compact(&b, d.data[start:d.dec.InputOffset()])
	return b.Bytes(), err
}

// holdsNull reports whether null is a value of the field, not its absence.
func (f *field) holdsNull() bool {
	return !f.list && !f.mapped && f.kind == protoreflect.MessageKind &&
		f.fd.Message().FullName() == "google.protobuf.Value"
}

func (d decoder) list(tok json.Token, f *field, list protoreflect.List, at *path) error {
	if tok != json.Delim('[') {
		return mismatch(at, "an array", tok)
	}
	return d.array(at, func(at *path, tok json.Token) error {
		if f.kind == protoreflect.MessageKind {
			return d.message(tok, list.AppendMutable().Message(), at)
		}
		v, err := scalar(tok, f.fd, f.enum, at)
		if err != nil {
			return err
		}
		list.Append(v)
		return nil
	})
}

func (d decoder) mapping(tok json.Token, f *field, m protoreflect.Map, at *path) error {
	if tok != json.Delim('{') {
		return mismatch(at, "an object", tok)
	}
	value := f.fd.MapValue()
	var enum *enumTable
	if ed := value.Enum(); ed != nil {
		enum = enumOf(ed)
	}
	return d.object(at, func(at *path, tok json.Token) error {
		k, err := mapKey(at.key, f.fd.MapKey(), at)
		if err != nil {
			return err
		}
		if m.Has(k) {
			return invalid(at, "%s is given twice.", at)
		}
		if value.Kind() == protoreflect.MessageKind {
			return d.message(tok, m.Mutable(k).Message(), at)
		}
		v, err := scalar(tok, value, enum, at)
		if err != nil {
			return err
		}
		m.Set(k, v)
		return nil
	})
}
