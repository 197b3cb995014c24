package structs_test

import (
	"encoding/json"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"kaged.dev/pkg/jsondepth"
	"kaged.dev/pkg/structs"
	"kaged.dev/pkg/wirejson"
)

// Any Go map becomes a Struct that can be encoded and has a JSON form.
func TestEveryMapCrossesTheWire(t *testing.T) {
	t.Parallel()
	type named []string
	deep := func(n int) any {
		var v any = "bottom"
		for i := range n {
			if v = []any{v}; i%2 == 0 {
				v = map[string]any{"a": v}
			}
		}
		return v
	}
	for name, v := range map[string]any{
		"text": "a", "not UTF-8": "\xff", "bytes": []byte("\x00\xff"), "NUL": "\x00", "none": nil,
		"largest":  int64(math.MaxInt64),
		"smallest": int64(math.MinInt64), "unsigned": uint64(math.MaxUint64), "NaN": math.NaN(), "infinite": math.Inf(-1),
		"number": json.Number("1e999"), "named list": named{"x"}, "map of ints": map[int]bool{1: true},
		"struct":   struct{ A int }{1},
		"100 deep": deep(100), "101 deep": deep(101), "20000 deep": deep(20000), "channel": make(chan int),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := proto.Marshal(structs.Of(map[string]any{"v": v, "\xfe": 1}))
			if err != nil {
				t.Fatalf("got error %v from marshalling, want none", err)
			}
			var back structpb.Struct
			if err := proto.Unmarshal(data, &back); err != nil {
				t.Fatalf("got error %v from unmarshalling, want none", err)
			}
			text, err := wirejson.Marshal(&back)
			if err != nil || !json.Valid(text) || jsondepth.Of(text) > structs.MaxDepth {
				t.Errorf("got %.200s and error %v, want JSON at most %d deep", text, err, structs.MaxDepth)
			}
		})
	}
}
