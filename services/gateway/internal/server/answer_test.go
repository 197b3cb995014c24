package server

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"kaged.dev/pkg/httproute"
	"kaged.dev/proto/gen/backends"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// Each route of the contract has a valid HTTP status. Its conditions and texts name fields of its answer or
// request.
func TestEveryRouteHasAStatus(t *testing.T) {
	t.Parallel()
	routes := 0
	for method := range methods(backends.All()) {
		answer, _ := proto.GetExtension(method.Options(), apiv1.E_HttpAnswer).(*apiv1.HTTPAnswer)
		if len(httproute.Of(method)) == 0 {
			if answer != nil {
				t.Errorf("%s has a status and no route", method.FullName())
			}
			continue
		}
		routes++
		if answer == nil {
			continue
		}
		if status := int(answer.GetStatus()); status != 0 && (http.StatusText(status) == "" || status == http.StatusOK) {
			t.Errorf("%s answers with %d, want a status that is not 200", method.FullName(), status)
		}
		if answer.GetText() != "" && !hasField(method.Output(), answer.GetText()) {
			t.Errorf("%s: the answer has no field %s", method.FullName(), answer.GetText())
		}
		if answer.GetTextBody() != "" && !hasField(method.Input(), answer.GetTextBody()) {
			t.Errorf("%s: the request has no field %s", method.FullName(), answer.GetTextBody())
		}
		for _, condition := range answer.GetWhen() {
			if !hasField(method.Output(), condition.GetField()) {
				t.Errorf("%s: the answer has no field %s", method.FullName(), condition.GetField())
			}
		}
	}
	if routes == 0 {
		t.Error("the contract has no route")
	}
}

func hasField(m protoreflect.MessageDescriptor, path string) bool {
	for name := range strings.SplitSeq(path, ".") {
		if m == nil {
			return false
		}
		field := m.Fields().ByName(protoreflect.Name(name))
		if field == nil {
			return false
		}
		m = field.Message()
	}
	return true
}
