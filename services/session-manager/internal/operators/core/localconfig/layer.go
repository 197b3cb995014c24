package localconfig

import (
	"cmp"
	"maps"
	"slices"

	"kaged.dev/pkg/catalogue"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
)

// Layer is a configuration of one operator in TOML. An administrator's may also have rules for tools.
type Layer struct {
	Document      string
	Administrator bool
}

// Parse parses the document. It fails with bad_request as [config.ParseOperator] does.
func (l Layer) Parse() (*config.File, error) {
	return config.ParseOperator("document", []byte(l.Document), l.Administrator)
}

// parseLayers parses stored layers. It fails with local_config_invalid, because work without an administrator's layer
// could use tools that the layer turns off.
func parseLayers(layers []Layer) ([]*config.File, error) {
	var files []*config.File
	for _, l := range layers {
		f, err := l.Parse()
		if err != nil {
			whose := "own configuration"
			if l.Administrator {
				whose = "configuration by an administrator"
			}
			return nil, fault.Wrap(err, fault.LocalConfigInvalid, "The operator's %s cannot be used: %s", whose,
				fault.From(err).Msg)
		}
		files = append(files, f)
	}
	return files, nil
}

// lay replaces the values of c that f has: aliases, rules with the same pattern, and preferences.
func (c *Config) lay(f *config.File) {
	if len(f.Models) > 0 {
		c.models = maps.Clone(c.models)
		for alias, targets := range f.Models {
			c.models[alias] = targets
		}
	}
	if len(f.DefaultTools) > 0 {
		rules := slices.DeleteFunc(slices.Clone(c.toolRules), func(r catalogue.Switch) bool {
			return slices.ContainsFunc(f.DefaultTools, func(own catalogue.Switch) bool { return own.Pattern == r.Pattern })
		})
		c.toolRules = append(rules, f.DefaultTools...)
	}
	c.preferences = Preferences{
		OperatorName: cmp.Or(f.OperatorName, c.preferences.OperatorName),
		Theme:        cmp.Or(f.UI.Theme, c.preferences.Theme),
		Timezone:     cmp.Or(f.UI.Timezone, c.preferences.Timezone),
		Locale:       cmp.Or(f.UI.Locale, c.preferences.Locale),
	}
}
