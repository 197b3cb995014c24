// Command gen writes models.json, the data of package modelmeta, from an unpacked copy of the npm package
// @earendil-works/pi-ai:
//
//	npm pack @earendil-works/pi-ai@1.5.2 && tar xzf earendil-works-pi-ai-1.5.2.tgz
//	go run ./internal/gen ./package models.json
//
// It uses no network. The output is the same for the same input.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

type price struct {
	Above      int64   `json:"inputTokensAbove"`
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cacheRead"`
	CacheWrite float64 `json:"cacheWrite"`
}

type model struct {
	ID        string   `json:"id"`
	Type      string   `json:"type"`
	Reasoning bool     `json:"reasoning"`
	Input     []string `json:"input"`
	Context   int64    `json:"contextWindow"`
	MaxTokens int64    `json:"maxTokens"`
	Cost      struct {
		price
		Tiers []price `json:"tiers"`
	} `json:"cost"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gen PACKAGE_FOLDER OUTPUT_FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(folder, output string) error {
	files, err := filepath.Glob(filepath.Join(folder, "dist", "providers", "data", "*.json"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	var b bytes.Buffer
	b.WriteString("{")
	first := true
	for _, file := range files {
		provider := strings.TrimSuffix(filepath.Base(file), ".json")
		if strings.HasPrefix(provider, ".") {
			continue
		}
		models, err := read(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if len(models) == 0 {
			continue
		}
		if !first {
			b.WriteString(",")
		}
		first = false
		fmt.Fprintf(&b, "\n%s:{", quote(provider))
		for i, m := range models {
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, "\n%s:%s", quote(m.ID), row(m))
		}
		b.WriteString("}")
	}
	if first {
		return fmt.Errorf("no model data under %s", folder)
	}
	b.WriteString("\n}\n")
	return os.WriteFile(output, b.Bytes(), 0o644)
}

// read returns a provider's chat models by id. A model offered in several wire formats counts once.
func read(file string) ([]model, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var formats map[string]map[string]model
	if err := json.Unmarshal(data, &formats); err != nil {
		return nil, err
	}
	byID := map[string]model{}
	for _, format := range slices.Sorted(maps.Keys(formats)) {
		for _, m := range formats[format] {
			if _, seen := byID[m.ID]; m.Type == "chat" && m.ID != "" && !seen {
				byID[m.ID] = m
			}
		}
	}
	models := slices.Collect(maps.Values(byID))
	slices.SortFunc(models, func(a, b model) int { return cmp.Compare(a.ID, b.ID) })
	return models, nil
}

// row is the data of one model, in the order that modelmeta's decode expects: context window, maximum output tokens, 1
// for reasoning plus 2 for images, the prices per million tokens, and for each tier its threshold and prices.
func row(m model) string {
	flags := 0
	if m.Reasoning {
		flags |= 1
	}
	if slices.Contains(m.Input, "image") {
		flags |= 2
	}
	values := []any{m.Context, m.MaxTokens, flags, m.Cost.Input, m.Cost.Output, m.Cost.CacheRead, m.Cost.CacheWrite}
	slices.SortFunc(m.Cost.Tiers, func(a, b price) int { return cmp.Compare(a.Above, b.Above) })
	for _, t := range m.Cost.Tiers {
		values = append(values, t.Above, t.Input, t.Output, t.CacheRead, t.CacheWrite)
	}
	return quote(values)
}

func quote(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
