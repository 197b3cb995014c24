package config

import (
	"maps"
	"slices"
	"strings"
)

// RawKeys returns, in order, the keys of provider credentials written in the file itself, such as
// providers.NAME.api_key. They work, but a backup or a shared screen reveals them. References to the environment are
// not included.
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

// CarriesKey reports whether providers accept credentials in a header.
func CarriesKey(header string) bool {
	switch strings.ToLower(header) {
	case "authorization", "x-api-key", "x-goog-api-key", "api-key":
		return true
	}
	return false
}

func isRaw(value string) bool { return strings.TrimSpace(value) != "" && !reference.MatchString(value) }
