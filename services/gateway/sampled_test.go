package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"kaged.dev/pkg/httproute"
	"kaged.dev/pkg/testkit/sample"
	"kaged.dev/pkg/wirejson"
	"kaged.dev/proto/gen/backends"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// sampled returns an exchange for each selected route of the contract, made of its descriptors: request and reply
// have a value in every field. So a new route is tested before its exchange is written by hand.
func sampled(selected func(route string) bool) (list []exchange) {
	for _, backend := range backends.All() {
		for _, service := range backend.Services {
			for i := range service.Methods().Len() {
				method := service.Methods().Get(i)
				for _, route := range httproute.Of(method) {
					if selected(route.Pattern()) {
						list = append(list, exchangeOf(method, route))
					}
				}
			}
		}
	}
	return list
}

// exchangeOf returns the exchange of one route of an RPC.
func exchangeOf(method protoreflect.MethodDescriptor, route httproute.Route) exchange {
	e := exchange{
		route: route.Pattern(), method: route.Method, path: route.Path, status: http.StatusOK,
		asked: sample.Message(method.Input()), reply: sample.Message(method.Output()),
	}
	asked, rest := e.asked.ProtoReflect(), proto.Clone(e.asked).ProtoReflect()
	for part := range strings.SplitSeq(route.Path, "/") {
		if !strings.HasPrefix(part, "{") {
			continue
		}
		name := strings.TrimSuffix(strings.Trim(part, "{}"), "=**")
		fd := asked.Descriptor().Fields().ByName(protoreflect.Name(name))
		e.path = strings.Replace(e.path, part, asked.Get(fd).String(), 1)
		rest.Clear(fd)
	}
	if route.Body == "*" {
		e.body = jsonOf(rest)
	} else {
		e.path += queryOf(asked, rest)
	}
	reply := e.reply.ProtoReflect()
	option, _ := proto.GetExtension(method.Options(), apiv1.E_HttpAnswer).(*apiv1.HTTPAnswer)
	if option.GetStatus() != 0 && holds(option.GetWhen(), jsonOf(reply)) {
		e.status = int(option.GetStatus())
	}
	if route.Answer != "" {
		reply = reply.Get(reply.Descriptor().Fields().ByName(protoreflect.Name(route.Answer))).Message()
	}
	e.want = jsonOf(reply)
	return e
}

// queryOf returns the query with the fields of rest. Fields that no query can have are cleared in asked.
func queryOf(asked, rest protoreflect.Message) string {
	values := url.Values{}
	rest.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList() || fd.IsMap() || fd.Message() != nil || fd.Enum() != nil:
			asked.Clear(fd)
		default:
			values.Set(string(fd.Name()), v.String())
		}
		return true
	})
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// holds reports whether the reply, in JSON, meets the conditions of an answer's status.
func holds(conditions []*apiv1.HTTPCondition, reply string) bool {
	for _, c := range conditions {
		var value any
		if err := json.Unmarshal([]byte(reply), &value); err != nil {
			panic(err)
		}
		for name := range strings.SplitSeq(c.GetField(), ".") {
			fields, _ := value.(map[string]any)
			value = fields[name]
		}
		if fmt.Sprint(value) != c.GetValue() {
			return false
		}
	}
	return true
}

func jsonOf(m protoreflect.Message) string {
	data, err := wirejson.Marshal(m.Interface())
	if err != nil {
		panic(err)
	}
	return string(data)
}

// Every field of every route passes between client and backend: of the path, the query and the body to the RPC, and
// of its answer to the client.
func TestEveryFieldPasses(t *testing.T) {
	t.Parallel()
	d := start(t, setup{rateLimitsOff: true})
	d.exchanges(t, sampled(func(route string) bool { return !forAdministrators(route) }))
}

// forAdministrators reports whether a route is refused to operators who are no administrators.
func forAdministrators(route string) bool { return strings.Contains(route, " /api/v1/admin/") }
