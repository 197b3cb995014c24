package wire_test

import (
	"encoding/json"
	"testing"

	"kaged.dev/pkg/llm"
	"kaged.dev/pkg/llm/wire"
)

// A list of tools is encoded once. A change of a name, a description, a schema or the form makes another list.
func TestListsOfToolsAreEncodedOnce(t *testing.T) {
	t.Parallel()
	read := llm.Tool{Name: "file.read", Description: "Reads.", Schema: json.RawMessage(`{"type":"object"}`)}
	renamed, described, widened := read, read, read
	renamed.Name, described.Description, widened.Schema = "file.show", "Shows.", json.RawMessage(`{"type":"object","a":1}`)
	encoded := 0
	with := func(form string, tools ...llm.Tool) string {
		t.Helper()
		names := wire.NewNames(llm.Request{Tools: tools})
		body, err := wire.WithTools([]byte(`{"stream":true}`), form, tools, names, func() any {
			encoded++
			list := []string{form}
			for _, tool := range tools {
				list = append(list, names.Encode(tool.Name)+"|"+tool.Description+"|"+string(tool.Schema))
			}
			return list
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}

	if got := with(t.Name()); got != `{"stream":true}` || encoded != 0 {
		t.Errorf("without tools the parameters are %s", got)
	}
	first := with(t.Name(), read)
	want := `{"stream":true,"tools":["` + t.Name() + `","file__read|Reads.|{\"type\":\"object\"}"]}`
	if first != want {
		t.Errorf("got %s, want %s", first, want)
	}
	if again := with(t.Name(), read); again != first || encoded != 1 {
		t.Errorf("the list was encoded %d times; the second body is %s", encoded, again)
	}
	seen := map[string]bool{first: true}
	for _, other := range []string{
		with(t.Name()+" other", read), with(t.Name(), renamed), with(t.Name(), described), with(t.Name(), widened),
		with(t.Name(), read, renamed),
	} {
		if seen[other] {
			t.Errorf("another list has the same bytes: %s", other)
		}
		seen[other] = true
	}
}
