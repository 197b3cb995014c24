package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The catalogue's chat models become rows; its other models and the package's other files are skipped.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "dist", "providers", "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		".manifest.json": `{"schemaVersion":6}`,
		"empty.json":     `{"x":{"image:a":{"id":"a","type":"image"}}}`,
		"b.json": `{"format-2":{"chat:m":{"id":"m","type":"chat","contextWindow":9}},"format-1":{
			"chat:m":{"id":"m","type":"chat","reasoning":true,"input":["text","image"],"contextWindow":10,"maxTokens":5,
			"cost":{"input":1,"output":2.5,"cacheRead":0.1,"cacheWrite":0,"tiers":[{"inputTokensAbove":7,"input":2,"output":5,"cacheRead":0.2,"cacheWrite":0}]}}}}`,
		"a.json": `{"f":{"chat:z":{"id":"z","type":"chat"},"chat:y":{"id":"y","type":"chat"}}}`,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(data, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out.json")
	if err := run(dir, out); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	want := "{\n\"a\":{\n\"y\":[0,0,0,0,0,0,0],\n\"z\":[0,0,0,0,0,0,0]},\n\"b\":{\n\"m\":[10,5,3,1,2.5,0.1,0,7,2,5,0.2," +
		"0]}\n}\n"
	if string(got) != want {
		t.Errorf("%s", got)
	}
	if err := run(t.TempDir(), out); err == nil {
		t.Error("a folder without data is no error")
	}
}
