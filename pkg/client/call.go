package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/wirejson"
)

//go:generate go run ./internal/gen

// route is a route of the API, as defined by the contract.
type route struct {
	method, path string
	// body is the request field sent as the body, "*" for all fields that are not in the path, "" for no body.
	body string
	// answer is the field of the answer that the body holds, "" for the whole answer.
	answer string
}

// message is a pointer to a message.
type message[T any] interface {
	*T
	proto.Message
}

// call makes one request and returns the answer.
func call[T any, P message[T]](ctx context.Context, c *Client, r route, req proto.Message) (P, error) {
	path, body, err := r.fill(req)
	if err != nil {
		return nil, err
	}
	status, data, err := c.exchange(ctx, r.method, path, body)
	if err != nil {
		return nil, err
	}
	if status >= http.StatusBadRequest && !answered(status, data) {
		return nil, apiFault(status, data)
	}
	if r.answer != "" {
		data = []byte(`{"` + r.answer + `":` + string(data) + `}`)
	}
	answer := P(new(T))
	if err := wirejson.Unmarshal(data, answer); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "The daemon's answer has another form; update this client.")
	}
	return answer, nil
}

// answered reports whether an error response is an answer with findings, as for a project file with errors.
func answered(status int, data []byte) bool {
	var body map[string]json.RawMessage
	if status != http.StatusUnprocessableEntity || json.Unmarshal(data, &body) != nil {
		return false
	}
	delete(body, "error")
	delete(body, "request_id")
	return len(body) > 0
}

// fill returns the path and the body of a request.
func (r route) fill(req proto.Message) (path string, body []byte, err error) {
	m := req.ProtoReflect()
	rest := proto.Clone(req).ProtoReflect()
	path = r.path
	for {
		before, after, found := strings.Cut(path, "{")
		if !found {
			break
		}
		name, tail, _ := strings.Cut(after, "}")
		name, pattern, _ := strings.Cut(name, "=")
		fd := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		value, err := segment(name, text(fd, m.Get(fd)), pattern != "")
		if err != nil {
			return "", nil, err
		}
		rest.Clear(fd)
		path = before + value + tail
	}
	switch r.body {
	case "":
		query := url.Values{}
		rest.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			query.Set(string(fd.Name()), text(fd, v))
			return true
		})
		if len(query) > 0 {
			path += "?" + query.Encode()
		}
		return path, nil, nil
	case "*":
		body, err = content(rest)
		return path, body, err
	}
	fd := rest.Descriptor().Fields().ByName(protoreflect.Name(r.body))
	body, err = content(rest.Get(fd).Message())
	return path, body, err
}

// content encodes a message as a body without its unset fields, which keep their stored values.
func content(m protoreflect.Message) ([]byte, error) {
	whole, err := wirejson.Marshal(m.Interface())
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(whole, &fields); err != nil {
		return nil, err
	}
	for i := range m.Descriptor().Fields().Len() {
		if fd := m.Descriptor().Fields().Get(i); !m.Has(fd) {
			delete(fields, wirejson.Key(fd))
		}
	}
	return json.Marshal(fields)
}

// text formats a value of a field for a path or a query.
func text(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return strconv.FormatBool(v.Bool())
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return strconv.FormatInt(v.Int(), 10)
	case protoreflect.EnumKind:
		return wirejson.EnumName(fd.Enum(), v.Enum())
	}
	return v.String()
}

// segment formats a value as a part of a path. With many it may hold slashes. It fails with validation_failed for a
// value that is invalid in a path.
func segment(name, value string, many bool) (string, error) {
	parts := []string{value}
	if many {
		parts = strings.Split(value, "/")
	}
	for i, part := range parts {
		if part == "" || part == "." || part == ".." || strings.Contains(part, "/") {
			return "", fault.New(fault.ValidationFailed, "%s cannot be %q.", name, value).With("fields", []string{name})
		}
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/"), nil
}
