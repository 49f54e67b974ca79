package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"lockstep/config"
	"lockstep/internal/must"
)

// JSON lines have the field names of the TypeScript relay when that is asked for, and its numbers
// for every level.
func TestJSONLinesInTheFieldNamesOfTheOtherRelay(t *testing.T) {
	for level, number := range map[slog.Level]float64{
		config.LevelTrace: 10, slog.LevelDebug: 20, slog.LevelInfo: 30, slog.LevelWarn: 40, slog.LevelError: 50, config.LevelFatal: 60,
	} {
		var text bytes.Buffer
		log := must.Get(newLogger(&text, config.Log{Level: "trace", Fields: "hiero"}))(t)
		before := time.Now().UnixMilli()
		log.Log(context.Background(), level, "said", "request_id", "r1", "error", errors.New("why"))
		var line map[string]any
		must.Do(t, json.Unmarshal(text.Bytes(), &line))
		if at, ok := line["time"].(float64); !ok || int64(at) < before || int64(at) > time.Now().UnixMilli() {
			t.Errorf("time %v", line["time"])
		}
		host, _ := os.Hostname()
		for key, want := range map[string]any{
			"level": number, "msg": "said", "requestId": "r1", "err": "why", "pid": float64(os.Getpid()), "hostname": host, "name": "lockstep",
		} {
			if line[key] != want {
				t.Errorf("%s is %v, want %v", key, line[key], want)
			}
		}
		if len(line) != 8 {
			t.Errorf("%d fields: %v", len(line), line)
		}
	}
}

// Every level has its name, in lines for people and in JSON, also those that log/slog does not know.
func TestNamesOfLevels(t *testing.T) {
	for level, name := range map[slog.Level]string{
		config.LevelTrace: "TRACE", slog.LevelDebug: "DEBUG", slog.LevelInfo: "INFO", slog.LevelWarn: "WARN", slog.LevelError: "ERROR", config.LevelFatal: "FATAL",
	} {
		for form, want := range map[bool]string{true: " level=" + name + " ", false: `"level":"` + name + `"`} {
			var text bytes.Buffer
			log := must.Get(newLogger(&text, config.Log{Level: "trace", Fields: "lockstep", Pretty: form}))(t)
			log.Log(context.Background(), level, "said", slog.Group("of", "level", level)) // not every field of that name is the line's level
			if line := text.String(); !strings.Contains(line, want) || level == config.LevelTrace && strings.Count(line, "TRACE") != 1 {
				t.Errorf("pretty %v: %s has no %s", form, line, want)
			}
		}
	}
}

// A duration has a unit: in the text, or by the format, whose numbers are milliseconds.
func TestDurationsInJSONLines(t *testing.T) {
	for fields, want := range map[string]any{"lockstep": "14.185095ms", "hiero": 14.185095} {
		var text bytes.Buffer
		log := must.Get(newLogger(&text, config.Log{Level: "info", Fields: fields}))(t)
		const took = 14_185_095 * time.Nanosecond
		log.Info("said", "took", took, slog.Group("of", "took", took))
		var line struct {
			Took any
			Of   struct{ Took any }
		}
		if err := json.Unmarshal(text.Bytes(), &line); err != nil || line.Took != want || line.Of.Took != want {
			t.Errorf("%s: %v, %s; want %v", fields, err, text.Bytes(), want)
		}
	}
}

// What a relay is has ten fields. On a terminal each has a line; a field from elsewhere cannot make one of its own.
func TestManyFieldsHaveLinesOfTheirOwn(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(spread{slog.NewTextHandler(&text, nil), &text, terminal{}})
	log.Info("few", "chain", "0x12a", "redis", "off")
	log.Info("many", "version", "1.0.0", "chain", "0x12a", "network", "testnet", "profile", "hiero", "operator", "0.0.2\nforged", "ordering", "on",
		"redis", "", "mirror", "127.0.0.1")
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 2+7 || !strings.Contains(lines[0], "chain=0x12a redis=off") || strings.TrimSpace(lines[3]) != "chain     0x12a" ||
		!strings.HasSuffix(lines[6], "0.0.2\uFFFDforged") {
		t.Errorf("%s", text.String())
	}
}
