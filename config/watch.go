package config

import "lockstep/watch"

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
