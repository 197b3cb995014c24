// Package modelmeta holds the limits and the prices of the models of known providers.
//
// The data is embedded. internal/gen makes it from the catalogue named in NOTICE. It is parsed at the first look-up, so
// a process without look-ups does not pay for it. It is as old as that catalogue; unknown models are not guessed.
package modelmeta

import (
	_ "embed"
	"encoding/json"
	"regexp"
	"strings"
	"sync"

	"kaged.dev/pkg/llm"
)

//go:embed models.json
var data []byte

// Pricing is in US dollars per token.
type Pricing struct {
	Input, Output, CacheRead, CacheWrite float64
}

// Tier is the pricing of a request with more than Above input tokens, cached or not.
type Tier struct {
	Above int64
	Pricing
}

// Meta is the known data of a model.
type Meta struct {
	// ContextWindow is the maximum number of tokens of a conversation, 0 if unknown.
	ContextWindow int
	// MaxOutput is the maximum number of tokens of an answer, 0 if unknown.
	MaxOutput int
	// Pricing are the prices of tokens; zero for a provider that does not charge by token, and for free models.
	Pricing Pricing
	// Tiers are the prices of long requests, by rising threshold.
	Tiers []Tier
	// Reasoning is true if the model thinks before it answers.
	Reasoning bool
	// Images is true if the model accepts images.
	Images bool
}

// Lookup returns the known data of a model. The provider is the name in the operator's configuration; if that is not a
// known provider, the driver selects the vendor. The model's id may have the vendor's prefix, may have a date that the
// catalogue lacks, or may lack a date that the catalogue has. The models of the rehearsal driver are always unknown.
func Lookup(provider, driver, model string) (Meta, bool) {
	if driver == "rehearsal" {
		return Meta{}, false
	}
	all := parsed()
	for _, name := range providerNames(provider, driver) {
		if models, ok := all[name]; ok {
			if m, ok := models.find(model); ok {
				return m, true
			}
		}
	}
	return Meta{}, false
}

// Cost returns the cost of usage at a model's prices, and false if the model has no price per token.
func Cost(u llm.Usage, m Meta) (llm.Cost, bool) {
	p := m.Pricing
	for _, t := range m.Tiers {
		if u.Input+u.CacheRead+u.CacheWrite > t.Above {
			p = t.Pricing
		}
	}
	if p == (Pricing{}) {
		return llm.Cost{}, false
	}
	reasoning := min(u.Reasoning, u.Output)
	c := llm.Cost{
		Input:      float64(u.Input) * p.Input,
		Output:     float64(u.Output-reasoning) * p.Output,
		Reasoning:  float64(reasoning) * p.Output,
		CacheRead:  float64(u.CacheRead) * p.CacheRead,
		CacheWrite: float64(u.CacheWrite) * p.CacheWrite,
	}
	c.Total = c.Input + c.Output + c.Reasoning + c.CacheRead + c.CacheWrite
	return c, true
}

// otherNames maps common names of providers to their names in the catalogue.
var otherNames = map[string]string{
	"claude": "anthropic", "gemini": "google", "vertex": "google-vertex", "bedrock": "amazon-bedrock",
	"azure-openai": "azure", "moonshot": "moonshotai", "kimi": "moonshotai", "grok": "xai", "zhipu": "zai",
	"together-ai": "together", "fireworks-ai": "fireworks", "hf": "huggingface",
}

// providerNames returns the catalogue's providers to search, best first.
func providerNames(provider, driver string) []string {
	provider = strings.ToLower(provider)
	if name, ok := otherNames[provider]; ok {
		provider = name
	}
	names := []string{provider}
	if _, known := parsed()[provider]; known {
		return names
	}
	switch driver {
	case "anthropic", "openai", "google":
		names = append(names, driver)
	case "openai-chat":
		// A compatible server with an unknown name may serve models of any vendor, also OpenAI's behind a proxy. Other
		// vendors do not reuse OpenAI's ids.
		names = append(names, "openai")
	}
	return names
}

// catalogue holds the models of one provider by id, and by id without its date.
type catalogue struct{ byID, undated map[string]Meta }

func (c catalogue) find(model string) (Meta, bool) {
	model = strings.ToLower(strings.TrimPrefix(model, "models/"))
	for {
		if m, ok := c.byID[model]; ok {
			return m, true
		}
		if m, ok := c.undated[undate(model)]; ok {
			return m, true
		}
		// For example anthropic/claude-x at Anthropic's own API, in the form of routers.
		_, rest, found := strings.Cut(model, "/")
		if !found {
			return Meta{}, false
		}
		model = rest
	}
}

var date = regexp.MustCompile(`[-@](?:20\d{6}|20\d\d-\d\d-\d\d|latest)$`)

func undate(id string) string { return date.ReplaceAllString(id, "") }

// parsed returns the catalogue by provider.
var parsed = sync.OnceValue(func() map[string]catalogue {
	var rows map[string]map[string][]float64
	if err := json.Unmarshal(data, &rows); err != nil {
		panic("modelmeta: embedded data: " + err.Error())
	}
	all := make(map[string]catalogue, len(rows))
	for provider, models := range rows {
		c := catalogue{byID: make(map[string]Meta, len(models)), undated: map[string]Meta{}}
		for id, row := range models {
			id = strings.ToLower(id)
			c.byID[id] = decode(row)
		}
		newest := map[string]string{}
		for id := range c.byID {
			// Of several dates the newest applies to the id without a date.
			if short := undate(id); short != id && id > newest[short] {
				newest[short] = id
				c.undated[short] = c.byID[id]
			}
		}
		for id, m := range c.byID {
			if undate(id) == id {
				c.undated[id] = m
			}
		}
		all[provider] = c
	}
	return all
})

// decode decodes a row of internal/gen.
func decode(row []float64) Meta {
	m := Meta{
		ContextWindow: int(row[0]),
		MaxOutput:     int(row[1]),
		Reasoning:     int(row[2])&1 != 0,
		Images:        int(row[2])&2 != 0,
	}
	m.Pricing = pricing(row[3:])
	for t := row[7:]; len(t) >= 5; t = t[5:] {
		m.Tiers = append(m.Tiers, Tier{Above: int64(t[0]), Pricing: pricing(t[1:])})
	}
	return m
}

// pricing decodes four prices per million tokens.
func pricing(row []float64) Pricing {
	const million = 1e6
	return Pricing{
		Input:      row[0] / million,
		Output:     row[1] / million,
		CacheRead:  row[2] / million,
		CacheWrite: row[3] / million,
	}
}
