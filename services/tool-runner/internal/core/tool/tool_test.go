package tool_test

import (
	"reflect"
	"testing"

	"kaged.dev/services/tool-runner/internal/core/tool"
)

// A tool consists of a name, a description, a schema and a function. A call carries the caller's id, name and input
// unchanged. A result is a text and an error flag (T-T20-01, T-T20-02, T-T20-03, T-T20-04, T-T20-09).
func TestTheInterfaceStaysSmall(t *testing.T) {
	t.Parallel()
	typ := reflect.TypeFor[tool.Tool]()
	var methods []string
	for i := range typ.NumMethod() {
		methods = append(methods, typ.Method(i).Name)
	}
	if want := []string{"Description", "Name", "Parameters", "Run"}; !reflect.DeepEqual(methods, want) {
		t.Errorf("a tool has the methods %v", methods)
	}
	for name, kind := range map[string]reflect.Kind{"ID": reflect.String, "Name": reflect.String, "Input": reflect.Slice} {
		if f, ok := reflect.TypeFor[tool.Call]().FieldByName(name); !ok || f.Type.Kind() != kind {
			t.Errorf("a call's %s is %v", name, f.Type)
		}
	}
	for name, kind := range map[string]reflect.Kind{"Content": reflect.String, "IsError": reflect.Bool} {
		if f, ok := reflect.TypeFor[tool.Result]().FieldByName(name); !ok || f.Type.Kind() != kind {
			t.Errorf("a result's %s is %v", name, f.Type)
		}
	}
}
