package console

import (
	"net/http"
	"strconv"
	"time"

	"lockstep/internal/relay/lifecycle"
)

// maxSteps is how many steps one answer has; who wants more asks again.
const maxSteps = 1000

// followed is an answer to GET /ui/steps.
type followed struct {
	Steps []lifecycle.Entry `json:"steps"`
	Next  uint64            `json:"next"` // to go on with
	Now   int64             `json:"now"`  // milliseconds since the Unix epoch
}

// steps tells what happened to transactions from a number on: GET /ui/steps?from=17. Every transaction of every sender is in it,
// so that the page can draw lanes with transactions that have left them.
func (c *Console) steps(w http.ResponseWriter, r *http.Request) {
	from, err := strconv.ParseUint(r.FormValue("from"), 10, 64)
	if err != nil {
		http.Error(w, "from: want the number of a step, 0 for the oldest one that is kept", http.StatusBadRequest)
		return
	}
	list, next := c.deps.Steps.From(from, maxSteps)
	respond(w, followed{list, next, time.Now().UnixMilli()})
}
