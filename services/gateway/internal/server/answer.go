package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"kaged.dev/pkg/wirejson"
	"kaged.dev/proto/gen/backends"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// answerTable is how RPCs answer by the option (kaged.api.v1.http_answer), by "/package.Service/Method".
type answerTable map[string]*apiv1.HTTPAnswer

func answers(list []backends.Backend) answerTable {
	table := answerTable{}
	for method := range methods(list) {
		if answer, _ := proto.GetExtension(method.Options(), apiv1.E_HttpAnswer).(*apiv1.HTTPAnswer); answer != nil {
			table["/"+string(method.Parent().FullName())+"/"+string(method.Name())] = answer
		}
	}
	return table
}

// setStatus gives an answer its status where that is not 200.
func (t answerTable) setStatus(ctx context.Context, w http.ResponseWriter, m proto.Message) error {
	name, _ := runtime.RPCMethod(ctx)
	answer := t[name]
	if answer.GetText() != "" && wantsText(ctx) {
		w.Header().Set("Content-Type", textType)
	}
	if answer.GetStatus() == 0 {
		return nil
	}
	for _, condition := range answer.GetWhen() {
		// The transcoder wraps a message of which one field is the body; its reflection is the message's.
		if valueOf(m.ProtoReflect(), condition.GetField()) != condition.GetValue() {
			return nil
		}
	}
	w.WriteHeader(int(answer.GetStatus()))
	return nil
}

// bareText is a body that is a text.
type bareText string

// rewrite returns the body of an answer: of a route with a text, for a client that asks for it, the text alone.
func (t answerTable) rewrite(ctx context.Context, m proto.Message) (any, error) {
	name, _ := runtime.RPCMethod(ctx)
	if field := t[name].GetText(); field != "" && wantsText(ctx) {
		return bareText(valueOf(m.ProtoReflect(), field)), nil
	}
	return m, nil
}

const textType = "text/plain; charset=utf-8"

type textKey struct{}

// withAccept notes in a context whether the request accepts text/plain and no JSON.
func withAccept(ctx context.Context, header []string) context.Context {
	accept := strings.ToLower(strings.Join(header, ","))
	wants := strings.Contains(accept, "text/plain") && !strings.Contains(accept, "application/json") &&
		!strings.Contains(accept, "*/*")
	return context.WithValue(ctx, textKey{}, wants)
}

func wantsText(ctx context.Context) bool {
	wants, _ := ctx.Value(textKey{}).(bool)
	return wants
}

// valueOf returns a field of m as JSON shows it, without quotes, "" for one that is not there.
func valueOf(m protoreflect.Message, field string) string {
	name, rest, deeper := strings.Cut(field, ".")
	fd := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	switch {
	case fd == nil:
		return ""
	case deeper && fd.Message() != nil && !fd.IsList() && !fd.IsMap():
		return valueOf(m.Get(fd).Message(), rest)
	case fd.Enum() != nil:
		return wirejson.EnumName(fd.Enum(), m.Get(fd).Enum())
	}
	return m.Get(fd).String()
}

// methods yields the methods of every service of the backends.
func methods(list []backends.Backend) func(yield func(protoreflect.MethodDescriptor) bool) {
	return func(yield func(protoreflect.MethodDescriptor) bool) {
		for _, backend := range list {
			for _, service := range backend.Services {
				for i := range service.Methods().Len() {
					if !yield(service.Methods().Get(i)) {
						return
					}
				}
			}
		}
	}
}
