package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"

	"lockstep/internal/secret"
)

// setting is one field of Config that is read from the environment.
type setting struct {
	name    string // environment name
	field   string // Go field
	owner   reflect.Type
	preset  string // default
	secret  bool
	section string // dotted path in Config
	value   reflect.Value
}

// settings lists every setting in order of declaration.
func settings() []setting { return collect(reflect.ValueOf(Config{}), "") }

func collect(v reflect.Value, section string) []setting {
	var list []setting
	for i := range v.NumField() {
		field := v.Type().Field(i)
		tag, ok := field.Tag.Lookup("env")
		if !ok && field.Type.Kind() == reflect.Struct {
			list = append(list, collect(v.Field(i), strings.TrimPrefix(section+"."+field.Name, "."))...)
			continue
		}
		name, _, _ := strings.Cut(tag, ",")
		if name == "" {
			continue
		}
		list = append(list, setting{
			name: name, field: field.Name, owner: v.Type(), preset: field.Tag.Get("envDefault"),
			secret: field.Type == reflect.TypeFor[secret.String](), section: section, value: v.Field(i),
		})
	}
	return list
}

// Setting is a setting's name and its value as text; secrets are masked.
type Setting struct {
	Name, Value string
}

// Effective returns every setting with its value. A setting that several parts of
// the program read is listed once.
func (c Config) Effective() []Setting {
	var list []Setting
	seen := map[string]bool{}
	for _, s := range collect(reflect.ValueOf(c), "") {
		if seen[s.name] {
			continue
		}
		seen[s.name] = true
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
