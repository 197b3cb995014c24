package config

import (
	"maps"
	"slices"
	"strings"
)

// RawKeys returns the keys of providers' credentials that stand in the file themselves, such as providers.NAME.api_key,
// in order: they work, but a backup or a shared screen shows them. A reference to the environment is not among them.
func (f *File) RawKeys() []string {
	var raw []string
	for _, name := range slices.Sorted(maps.Keys(f.Providers)) {
		p := f.Providers[name]
		if isRaw(p.APIKey) {
			raw = append(raw, "providers."+name+".api_key")
		}
		for _, h := range slices.Sorted(maps.Keys(p.Headers)) {
			if CarriesKey(h) && isRaw(p.Headers[h]) {
				raw = append(raw, "providers."+name+".headers."+h)
			}
		}
	}
	return raw
}

// CarriesKey reports whether a header is one that providers take credentials from.
func CarriesKey(header string) bool {
	switch strings.ToLower(header) {
	case "authorization", "x-api-key", "x-goog-api-key", "api-key":
		return true
	}
	return false
}

func isRaw(value string) bool { return strings.TrimSpace(value) != "" && !reference.MatchString(value) }
