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

// answerTable has the option (kaged.api.v1.http_answer) of each RPC that has one, by "/package.Service/Method".
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

// setStatus writes the status of an answer, if the RPC's option names one and its conditions hold.
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
		// The transcoder wraps a message if its body is one field. ProtoReflect returns the wrapped message.
		if valueOf(m.ProtoReflect(), condition.GetField()) != condition.GetValue() {
			return nil
		}
	}
	w.WriteHeader(int(answer.GetStatus()))
	return nil
}

// bareText is an answer's body that is plain text and not JSON.
type bareText string

// rewrite returns the body of an answer: the text alone if the route has one and the client asks for text/plain,
// else the message.
func (t answerTable) rewrite(ctx context.Context, m proto.Message) (any, error) {
	name, _ := runtime.RPCMethod(ctx)
	if field := t[name].GetText(); field != "" && wantsText(ctx) {
		return bareText(valueOf(m.ProtoReflect(), field)), nil
	}
	return m, nil
}

const textType = "text/plain; charset=utf-8"

type textKey struct{}

// withAccept stores in a context whether the request accepts text/plain and not JSON.
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

// valueOf returns a field of m in JSON form without quotes. field is a path with dots. The value of an unknown
// field is "".
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

// methods yields the methods of all services of the backends.
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
