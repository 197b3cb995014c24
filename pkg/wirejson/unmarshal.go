package wirejson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/fault"
)

// MaxDepth is how deep objects and arrays may nest in what [Unmarshal] reads.
const MaxDepth = 100

// Unmarshal replaces m by what data says. It fails with fault.BadRequest where data is not one JSON value in UTF-8 nested at
// most [MaxDepth] deep, and with fault.ValidationFailed where it does not fit m: details.fields then holds the path of the
// field, and the HTTP status is 422 where the field is a number out of range. After an error m holds nothing useful.
func Unmarshal(data []byte, m proto.Message) error {
	if err := check(data); err != nil {
		return err
	}
	proto.Reset(m)
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	d := decoder{dec}
	tok, err := d.next()
	if err != nil {
		return err
	}
	return d.message(tok, m.ProtoReflect(), "")
}

// check finds what is wrong with data as JSON, so that the decoder walks only what is well-formed.
func check(data []byte) error {
	if !utf8.Valid(data) {
		return fault.New(fault.BadRequest, "The JSON is not valid UTF-8.")
	}
	if depth(data) > MaxDepth {
		return fault.New(fault.BadRequest, "The JSON is nested more than %d levels deep.", MaxDepth)
	}
	var raw json.RawMessage
	err := json.Unmarshal(data, &raw)
	if err == nil {
		return nil
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fault.Wrap(err, fault.BadRequest, "The JSON does not parse at byte %d.", syntax.Offset).With("offset", syntax.Offset)
	}
	return fault.Wrap(err, fault.BadRequest, "The JSON does not parse.")
}

// depth returns how deep brackets outside strings nest.
func depth(data []byte) int {
	open, deepest, quoted := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			open++
			deepest = max(deepest, open)
		case c == '}' || c == ']':
			open--
		}
	}
	return deepest
}

// decoder walks JSON that check has passed. Each method is handed the first token of its value.
type decoder struct{ dec *json.Decoder }

func (d decoder) next() (json.Token, error) {
	tok, err := d.dec.Token()
	if err != nil {
		return nil, fault.Wrap(err, fault.BadRequest, "The JSON does not parse.")
	}
	return tok, nil
}

func (d decoder) message(tok json.Token, m protoreflect.Message, path string) error {
	switch v := m.Interface().(type) {
	case *structpb.Value:
		return d.value(tok, v, path)
	case *structpb.Struct:
		if tok != json.Delim('{') {
			return mismatch(path, "an object", tok)
		}
		return d.structure(v, path)
	case *structpb.ListValue:
		if tok != json.Delim('[') {
			return mismatch(path, "an array", tok)
		}
		return d.listValue(v, path)
	}
	if tok != json.Delim('{') {
		return mismatch(path, "an object", tok)
	}
	t := tableOf(m.Descriptor())
	seen := make([]bool, len(t.fields))
	return d.object(path, func(key, at string, tok json.Token) error {
		i, known := t.byName[key]
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

// object calls each for every key of the object whose brace was just read, with the first token of its value.
func (d decoder) object(path string, each func(key, at string, tok json.Token) error) error {
	for d.dec.More() {
		key, err := d.next()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		tok, err := d.next()
		if err != nil {
			return err
		}
		at := name
		if path != "" {
			at = path + "." + name
		}
		if err := each(name, at, tok); err != nil {
			return err
		}
	}
	_, err := d.next()
	return err
}

// array calls each for every element of the array whose bracket was just read, with its first token.
func (d decoder) array(path string, each func(at string, tok json.Token) error) error {
	for i := 0; d.dec.More(); i++ {
		tok, err := d.next()
		if err != nil {
			return err
		}
		if err := each(fmt.Sprintf("%s[%d]", path, i), tok); err != nil {
			return err
		}
	}
	_, err := d.next()
	return err
}

// skip walks over a value nobody wants.
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

func (d decoder) field(tok json.Token, f *field, m protoreflect.Message, path string) error {
	if tok == nil && !f.holdsNull() {
		return nil
	}
	if oneof := f.fd.ContainingOneof(); f.member && m.WhichOneof(oneof) != nil {
		return invalid(path, "%s and %s exclude each other.", path, m.WhichOneof(oneof).Name())
	}
	switch {
	case f.list:
		return d.list(tok, f, m.Mutable(f.fd).List(), path)
	case f.mapped:
		return d.mapping(tok, f, m.Mutable(f.fd).Map(), path)
	case f.kind == protoreflect.MessageKind:
		return d.message(tok, m.Mutable(f.fd).Message(), path)
	}
	v, err := scalar(tok, f.fd, f.enum, path)
	if err != nil {
		return err
	}
	m.Set(f.fd, v)
	return nil
}

// holdsNull reports whether null is a value of the field and not its absence.
func (f *field) holdsNull() bool {
	return !f.list && !f.mapped && f.kind == protoreflect.MessageKind && f.fd.Message().FullName() == "google.protobuf.Value"
}

func (d decoder) list(tok json.Token, f *field, list protoreflect.List, path string) error {
	if tok != json.Delim('[') {
		return mismatch(path, "an array", tok)
	}
	return d.array(path, func(at string, tok json.Token) error {
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

func (d decoder) mapping(tok json.Token, f *field, m protoreflect.Map, path string) error {
	if tok != json.Delim('{') {
		return mismatch(path, "an object", tok)
	}
	value := f.fd.MapValue()
	var enum *enumTable
	if ed := value.Enum(); ed != nil {
		enum = enumOf(ed)
	}
	return d.object(path, func(key, at string, tok json.Token) error {
		k, err := mapKey(key, f.fd.MapKey(), at)
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
