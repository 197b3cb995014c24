package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	commonv1 "kaged.dev/proto/gen/kaged/common/v1"
)

const intro = `# Frames

Generated from ` + "`frame.proto` and `system_socket.proto` of `proto/kaged/api/v1`" + `;
see [adding an event](../howto/add-an-event.md).

A frame of a session's socket is ` + "`{\"channel\", \"seq\", \"type\", \"payload\"}`" +
	`. Frames of every channel but control
are numbered and replayed, unless the type says that it is the socket's own. A key is always there, unless it may be
left out; times are milliseconds since the Unix epoch. The system socket sends the frames of the channel system, and
those that say so.
`

// reference writes the page of the frames.
type reference struct {
	bytes.Buffer
	comments map[string]string
	objects  []protoreflect.MessageDescriptor
	seen     map[protoreflect.FullName]bool
}

// writePage writes the reference page from the messages and from the comments of their files.
func writePage(root string) error {
	comments, err := commentsOf(filepath.Join(root, "proto/kaged/api/v1"), filepath.Join(root, "proto/kaged/common/v1"))
	if err != nil {
		return err
	}
	r := &reference{comments: comments, seen: map[protoreflect.FullName]bool{}}
	r.WriteString(intro)
	var channels []string
	types := map[string][]protoreflect.MessageDescriptor{}
	messages := apiv1.File_kaged_api_v1_frame_proto.Messages()
	for i := range messages.Len() {
		channel := "control"
		if frame := frameOf(messages.Get(i)); frame != nil {
			channel = frame.GetChannel()
		}
		if types[channel] == nil {
			channels = append(channels, channel)
		}
		types[channel] = append(types[channel], messages.Get(i))
	}
	for _, channel := range channels {
		fmt.Fprintf(r, "\n## Channel %s\n", channel)
		for _, m := range types[channel] {
			r.frame(m)
		}
	}
	fmt.Fprintf(r, "\n## Channel %s\n", systemChannel)
	messages = apiv1.File_kaged_api_v1_system_socket_proto.Messages()
	for i := range messages.Len() {
		if frameOf(messages.Get(i)) != nil {
			r.frame(messages.Get(i))
		}
	}
	r.WriteString("\n## Objects\n")
	for i := 0; i < len(r.objects); i++ { // a table may add further objects
		m := r.objects[i]
		fmt.Fprintf(r, "\n### %s\n\n%s\n", m.Name(), r.comments[string(m.Name())])
		r.fields(m)
	}
	return os.WriteFile(filepath.Join(root, "docs/reference/frames.md"), r.Bytes(), 0o644)
}

func frameOf(m protoreflect.MessageDescriptor) *apiv1.Frame {
	frame, _ := proto.GetExtension(m.Options(), apiv1.E_Frame).(*apiv1.Frame)
	return frame
}

func (r *reference) frame(m protoreflect.MessageDescriptor) {
	title := string(m.Name())
	if frame := frameOf(m); frame != nil {
		title = "`" + frame.GetType() + "`"
		if frame.GetOfSocket() {
			title += " (the socket's own)"
		}
		if frame.GetOfSystem() {
			title += " (also of the system socket)"
		}
	}
	fmt.Fprintf(r, "\n### %s\n\n%s\n", title, r.comments[string(m.Name())])
	r.fields(m)
}

func (r *reference) fields(m protoreflect.MessageDescriptor) {
	if m.Fields().Len() == 0 {
		return
	}
	r.WriteString("\n| key | value | meaning |\n|---|---|---|\n")
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		comment := strings.ReplaceAll(r.comments[string(m.Name())+"."+string(f.Name())], "|", `\|`)
		fmt.Fprintf(r, "| `%s` | %s | %s |\n", f.Name(), r.value(f), comment)
	}
}

// value describes the JSON value of a field.
func (r *reference) value(f protoreflect.FieldDescriptor) string {
	text := r.single(f)
	switch {
	case f.IsMap():
		text = "object of " + r.single(f.MapValue())
	case f.IsList():
		text = "array of " + text
	}
	switch {
	case proto.GetExtension(f.Options(), commonv1.E_OmitEmpty).(bool):
		text += ", may be left out"
	case f.HasPresence() && (f.Message() == nil || !wellKnown(f.Message())):
		text += " or null"
	}
	return text
}

func (r *reference) single(f protoreflect.FieldDescriptor) string {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return "boolean"
	case protoreflect.StringKind, protoreflect.EnumKind:
		return "string"
	case protoreflect.BytesKind:
		if proto.GetExtension(f.Options(), commonv1.E_RawJson).(bool) {
			return "any JSON"
		}
		return "string"
	case protoreflect.MessageKind:
		m := f.Message()
		if wellKnown(m) {
			return "any JSON"
		}
		if !r.seen[m.FullName()] && !f.IsMap() {
			r.seen[m.FullName()] = true
			r.objects = append(r.objects, m)
		}
		return fmt.Sprintf("[%s](#%s)", m.Name(), strings.ToLower(string(m.Name())))
	}
	return "number"
}

func wellKnown(m protoreflect.MessageDescriptor) bool {
	return strings.HasPrefix(string(m.FullName()), "google.protobuf.")
}

var (
	messageLine = regexp.MustCompile(`^message (\w+) \{`)
	fieldLine   = regexp.MustCompile(`^\s+(?:repeated |optional )?[\w.<>, ]+ (\w+) = \d+`)
)

// commentsOf returns the comments of the messages in some folders, and of their fields as Message.field. Generated code
// does not have them.
func commentsOf(folders ...string) (map[string]string, error) {
	comments := map[string]string{}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.proto"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			readComments(text, comments)
		}
	}
	return comments, nil
}

func readComments(text []byte, comments map[string]string) {
	var message string
	var lines []string
	for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
		line := sc.Text()
		if comment, ok := strings.CutPrefix(strings.TrimSpace(line), "//"); ok {
			lines = append(lines, strings.TrimSpace(comment))
			continue
		}
		if m := messageLine.FindStringSubmatch(line); m != nil {
			message = m[1]
			comments[message] = strings.Join(lines, " ")
		} else if m := fieldLine.FindStringSubmatch(line); m != nil {
			comments[message+"."+m[1]] = strings.Join(lines, " ")
		}
		lines = nil
	}
}
