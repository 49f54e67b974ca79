package config

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"lockstep/consensus"
	"lockstep/internal/secret"
	"lockstep/mirror"
	"lockstep/txmgr/service"
	"lockstep/txmgr/signers"
	"lockstep/watch"
)

// setting is one field of Config that is read from the environment.
type setting struct {
	name    string // environment name
	field   string // Go field
	owner   reflect.Type
	preset  string // default
	secret  bool
	section string // dotted path in Config
	reload  bool   // a running relay can take a new value
	value   reflect.Value
	tag     reflect.StructTag
}

// settings lists every setting in order of declaration: the relay's, then the
// transaction manager's, then the watchers'.
func settings() []setting {
	return slices.Concat(collect(reflect.ValueOf(Config{}), ""), collect(reflect.ValueOf(Manager{}), ""), collect(reflect.ValueOf(Watchers{}), ""))
}

func collect(v reflect.Value, section string) []setting {
	var list []setting
	for i := range v.NumField() {
		field := v.Type().Field(i)
		tag, ok := field.Tag.Lookup("env")
		if !ok && field.Type.Kind() == reflect.Struct {
			inner := section // an embedded part has no heading of its own
			if !field.Anonymous {
				inner = strings.TrimPrefix(section+"."+field.Name, ".")
			}
			list = append(list, collect(v.Field(i), inner)...)
			continue
		}
		name, _, _ := strings.Cut(tag, ",")
		if name == "" {
			continue
		}
		list = append(list, setting{
			name: name, field: field.Name, owner: v.Type(), preset: field.Tag.Get("envDefault"),
			secret: field.Type == reflect.TypeFor[secret.String](), section: section, value: v.Field(i), reload: field.Tag.Get("reload") == "true", tag: field.Tag,
		})
	}
	return list
}

// Setting is a setting's name and its value as text; secrets are masked.
type Setting struct {
	Name, Value string
}

// Effective returns every setting with its value; one that several parts of the program read is there for each.
func (c Config) Effective() []Setting { return effective(c) }

// Effective returns the settings of `lockstep txm` with their values.
func (c Manager) Effective() []Setting { return effective(c) }

func effective(c any) []Setting {
	var list []Setting
	for _, s := range collect(reflect.ValueOf(c), "") {
		list = append(list, Setting{Name: s.name, Value: text(s.value.Interface())})
	}
	return list
}

func text(v any) string {
	if m, ok := v.(encoding.TextMarshaler); ok {
		if b, err := m.MarshalText(); err == nil {
			return string(b)
		}
	}
	return fmt.Sprint(v)
}

// Take takes the new values of those settings that a running relay can change.
func (c *Config) Take(next Config) {
	mine := collect(reflect.ValueOf(c).Elem(), "")
	for i, s := range collect(reflect.ValueOf(next), "") {
		if s.reload {
			mine[i].value.Set(s.value)
		}
	}
}

// Changed compares the settings of a running relay with new ones. It returns the names of those that
// differ: the ones that take effect at once, and the ones for which the relay must be started again.
func (c Config) Changed(next Config) (atOnce, restart []string) {
	was := collect(reflect.ValueOf(c), "")
	for i, now := range collect(reflect.ValueOf(next), "") {
		switch {
		case reflect.DeepEqual(was[i].value.Interface(), now.value.Interface()):
		case now.reload:
			atOnce = append(atOnce, now.name)
		default:
			restart = append(restart, now.name)
		}
	}
	return atOnce, restart
}

// Watchers is every setting of `lockstep watch`. It needs none of the relay's.
type Watchers struct {
	Watch watch.Settings
	Log   Log
	// Misspelt are names that were given, mean nothing, and are near a setting's.
	Misspelt []Misspelt
}

// LoadWatchers reads the settings of `lockstep watch` from environ, a list of NAME=value. Its error joins all mistakes.
func LoadWatchers(environ []string) (Watchers, error) {
	c := Watchers{Misspelt: misspeltIn(valuesOf(environ))}
	if err := parse(&c, environ); err != nil {
		return c, err
	}
	return c, c.Watch.Validate()
}

// Manager is every setting of `lockstep txm`. Of the relay's it needs only those that name
// Hedera's nodes, mirror node and operator, for chains with the driver hedera.
type Manager struct {
	TXM       service.Config
	Consensus consensus.Config
	Mirror    mirror.Config
	Log       Log
	// Misspelt are names that were given, mean nothing, and are near a setting's.
	Misspelt []Misspelt
}

// LoadManager reads the settings of `lockstep txm` from environ, a list of NAME=value.
// Its error joins all mistakes and shows no secret.
func LoadManager(environ []string) (Manager, error) {
	c := Manager{Misspelt: misspeltIn(valuesOf(environ))}
	if err := parse(&c, environ); err != nil {
		return c, err
	}
	c.TXM.Signers.Numbered = signers.Numbered(environ)
	return c, c.TXM.Validate()
}
