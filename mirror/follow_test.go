package mirror

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
)

func numbersOf(blocks []*Block) (numbers []uint64) {
	for _, b := range blocks {
		numbers = append(numbers, b.Number)
	}
	return numbers
}

// TestNextBlocksPolled: every call asks anew, one page, in ascending order.
func TestNextBlocksPolled(t *testing.T) {
	n := newNode(t)
	const path = "blocks?block.number=gte:7&limit=2&order=asc"
	client := connect(t, n.URL, func(c *Config) { c.PageSize = 2 })
	n.set(path, blocksJSON(`null`))
	if blocks, err := client.NextBlocks(t.Context(), 7); err != nil || len(blocks) != 0 {
		t.Errorf("got %v, %v, want none", blocks, err)
	}
	n.set(path, blocksJSON(`"/api/v1/blocks?p=2"`, 7, 8))
	blocks, err := client.NextBlocks(t.Context(), 7)
	if diff := cmp.Diff([]uint64{7, 8}, numbersOf(blocks)); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := client.BlockByNumber(t.Context(), 8); err != nil {
		t.Errorf("a block that was listed is asked for again: %v", err)
	}
	if diff := cmp.Diff([]string{path, path}, n.requests()); diff != "" {
		t.Error(diff)
	}
	if client.Pushes() {
		t.Error("says that it waits")
	}
}

// TestNextBlocksOutdatesHead: whoever was told of a block must not be told an older head
// afterwards.
func TestNextBlocksOutdatesHead(t *testing.T) {
	n := newNode(t)
	n.set(latestPath, blocksJSON(`null`, 6))
	n.set("blocks?block.number=gte:7&limit=100&order=asc", blocksJSON(`null`, 7))
	client := connect(t, n.URL)
	if head, err := client.LatestBlock(t.Context()); err != nil || head.Number != 6 {
		t.Fatal(head, err)
	}
	n.set(latestPath, blocksJSON(`null`, 7))
	must.Get(client.NextBlocks(t.Context(), 7))(t)
	if head, err := client.LatestBlock(t.Context()); err != nil || head.Number != 7 {
		t.Errorf("newest block after block 7 was told: %v, %v", head, err)
	}
}

// TestNextBlocksOpenBlock: a block that is still open is none yet.
func TestNextBlocksOpenBlock(t *testing.T) {
	n := newNode(t)
	open := strings.Replace(blocksJSON(`null`, 8), `"to":`, `"to":null,"was":`, 1)
	n.set("blocks?block.number=gte:8&limit=100&order=asc", open)
	if blocks, err := connect(t, n.URL).NextBlocks(t.Context(), 8); err != nil || len(blocks) != 0 {
		t.Errorf("got %v, %v, want none", numbersOf(blocks), err)
	}
}

// TestHeadIsAskedAnew: the shared newest block is for readers, not for those who want
// to know where to begin.
func TestHeadIsAskedAnew(t *testing.T) {
	n := newNode(t)
	client := connect(t, n.URL)
	if _, err := client.Head(t.Context()); !errors.Is(err, ErrNotFound) {
		t.Errorf("without a block: %v", err)
	}
	for number := range 3 {
		n.set(latestPath, blocksJSON(`null`, number))
		if head, err := client.Head(t.Context()); err != nil || head.Number != uint64(number) {
			t.Errorf("got %v, %v, want %d", head, err, number)
		}
	}
}

// TestNextBlocksPushed: the question goes to where the mirror node answers when there is
// a block; one that cannot is polled from then on.
func TestNextBlocksPushed(t *testing.T) {
	var asked []string
	able := true
	n := newNode(t)
	n.handler = func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		if !able && strings.HasPrefix(r.URL.Path, "/prefix/devnet/") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(blocksJSON(`null`, 9)))
	}
	client := connect(t, n.URL+"/prefix", func(c *Config) { c.Push = true })
	for i := range 3 {
		blocks, err := client.NextBlocks(t.Context(), 9)
		if err != nil || len(blocks) != 1 {
			t.Fatalf("%s: %v, %v", strconv.Itoa(i), blocks, err)
		}
		if client.Pushes() != able {
			t.Errorf("says that it waits: %v", client.Pushes())
		}
		able = false
	}
	polled := "/prefix/api/v1/blocks?block.number=gte:9&limit=100&order=asc"
	pushed := "/prefix/devnet/blocks?from=9&wait=5000"
	if diff := cmp.Diff([]string{pushed, pushed, polled, polled}, asked); diff != "" {
		t.Error(diff)
	}
}
