package rpc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/must"
	"lockstep/internal/relay/capacity"
)

// littleMemory is for requests of 8 MB, clients of 16 MB and all of 24 MB.
func littleMemory() *capacity.Memory {
	return capacity.NewMemory(capacity.Config{Limit: 512, Requests: 24, Client: 16, Request: 8, RequestTime: envx.Millis(1e9), HeavyReads: 16})
}

// withLongAnswers is a server one of whose methods answers with a megabyte.
func withLongAnswers(t *testing.T, memory *capacity.Memory) *Dispatcher {
	t.Helper()
	long := strings.Repeat("a", megabyte)
	return testDispatcher(t, testConfig(), Options{Memory: memory, Heavy: capacity.NewPermits(8, 4)}, append(testMethods(), Method{Name: "eth_long", AnyParams: true, Handler: returns(long)})...)
}

type answered struct {
	Result *string
	Error  *eth.Error
}

// TestABatchHoldsNoMoreThanARequestMay: of a hundred answers of a megabyte those come that
// there is memory for, and all others are told why not.
func TestABatchHoldsNoMoreThanARequestMay(t *testing.T) {
	memory := littleMemory()
	d := withLongAnswers(t, memory)
	text := exchangeOnce(t.Context(), d, "["+strings.TrimSuffix(strings.Repeat(call1("eth_long")+",", 100), ",")+"]")
	var answers []answered
	if err := json.Unmarshal([]byte(text), &answers); err != nil || len(answers) != 100 {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	given := 0
	for _, a := range answers {
		switch {
		case a.Result != nil:
			given++
		case a.Error == nil || a.Error.Code != eth.CodeLimitExceeded:
			t.Fatalf("refused with %+v", a.Error)
		}
	}
	if given != 6 { // a megabyte has an envelope, and the calls themselves hold some memory
		t.Errorf("%d answers of a megabyte where 8 MB may be held", given)
	}
	if used := memory.Used(); used != 0 {
		t.Errorf("%d bytes are held after the answer", used)
	}
}

// TestUnfinishedBodiesHoldNoMoreThanAClientMay: the client can do what is small, and others all that they like.
func TestUnfinishedBodiesHoldNoMoreThanAClientMay(t *testing.T) {
	memory := littleMemory()
	url := serveHTTP(t, withLongAnswers(t, memory), HTTPOptions{})
	body := strings.Repeat(" ", megabyte-1)
	refused := make(chan string, 24)
	var conns []net.Conn
	for range 24 {
		conn := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
		defer conn.Close()
		conns = append(conns, conn)
		go func() {
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				return // it was closed
			}
			defer response.Body.Close()
			text, _ := io.ReadAll(response.Body)
			refused <- fmt.Sprint(response.StatusCode, response.Header.Get("Retry-After"), string(text))
		}()
		go func() {
			_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 9.9.9.9\r\nContent-Length: %d\r\n\r\n%s", megabyte, body)
		}()
	}
	for range 8 {
		if text := <-refused; !strings.HasPrefix(text, `4291{"error":{"code":-32005,`) {
			t.Errorf("refused with %s", text)
		}
	}
	if used := memory.Used(); used > 16*megabyte {
		t.Errorf("%d bytes are held", used)
	}
	for ip, method := range map[string]string{"9.9.9.9": "eth_chainId", "8.8.8.8": "eth_long"} {
		if status, _ := postWith(t, url, strings.NewReader(call1(method)), http.Header{"X-Forwarded-For": {ip}}); status != http.StatusOK {
			t.Errorf("%s of %s: %d", method, ip, status)
		}
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	eventually(t, func() bool { return memory.Used() == 0 })
}

// TestWhatWaitsForSlowReadersIsCounted: notifications and answers alike.
func TestWhatWaitsForSlowReadersIsCounted(t *testing.T) {
	memory := littleMemory()
	out, _ := queueOver(t)
	var holding capacity.Holding
	holding.Begin(memory, "9.9.9.9")
	answer := memory.Open("9.9.9.9")
	must.Do(t, answer.Take(megabyte))
	out.answer(frame{opcode: opText, payload: [][]byte{make([]byte, megabyte)}, free: answer.Close})
	taken := 0
	for e := NewEvent(make([]byte, megabyte)); e.hold(&holding); e = NewEvent(make([]byte, megabyte)) {
		if ok, _ := out.put(frame{opcode: opText, event: e, subscription: "0x1"}, 64*megabyte); ok {
			taken++
		}
	}
	if taken != 7 {
		t.Errorf("%d notifications of a megabyte wait where 8 MB may be held", taken)
	}
	if memory.Used() < 8*megabyte {
		t.Errorf("%d bytes are counted", memory.Used())
	}
	out.conn.Close()
	<-out.written
	if used := memory.Used(); used != 0 {
		t.Errorf("%d bytes are held after the connection has ended", used)
	}
}

// TestAnAnswerIsCountedBeforeItIsWritten: what there is no memory for is not even made.
func TestAnAnswerIsCountedBeforeItIsWritten(t *testing.T) {
	memory := littleMemory()
	d := testDispatcher(t, testConfig(), Options{Memory: memory}, Method{Name: "eth_sized", AnyParams: true, Handler: returns(make(hexutil.Bytes, 3*megabyte/2))})
	text := exchangeOnce(t.Context(), d, "["+strings.TrimSuffix(strings.Repeat(call1("eth_sized")+",", 10), ",")+"]")
	if refused := strings.Count(text, `"error"`); refused != 8 || memory.Peak() > 8*megabyte {
		t.Errorf("of ten answers of 3 MB %d were refused where 8 MB may be held, of which %d were", refused, memory.Peak())
	}
}

// TestACallGivesBackWhatItRead: a batch may read more in all than a request may hold, as long
// as its calls do not hold it at the same time.
func TestACallGivesBackWhatItRead(t *testing.T) {
	for name, weight := range map[string]int{"light": 0, "heavy": 4} { // of 4 places: one after the other
		t.Run(name, func(t *testing.T) {
			memory := littleMemory()
			c := testConfig()
			c.Batch.Concurrency = 1
			d := testDispatcher(t, c, Options{Memory: memory, Heavy: capacity.NewPermits(8, 4)}, Method{Name: "eth_reads", AnyParams: true, Weight: weight, Handler: func(ctx context.Context, _ *Params) (any, error) {
				return true, capacity.FromContext(ctx).Take(megabyte)
			}})
			text := exchangeOnce(t.Context(), d, "["+strings.TrimSuffix(strings.Repeat(call1("eth_reads")+",", 100), ",")+"]")
			if strings.Contains(text, `"error"`) {
				t.Errorf("calls were refused: %.200s", text)
			}
			if memory.Used() != 0 || memory.Peak() > 2*megabyte {
				t.Errorf("%d bytes are held", memory.Used())
			}
		})
	}
}

// TestManyBatchesAtOnceAreCounted: what calls hold that wait, however small their texts are.
func TestManyBatchesAtOnceAreCounted(t *testing.T) {
	memory := littleMemory()
	d := withLongAnswers(t, memory)
	body := []byte("[" + strings.TrimSuffix(strings.Repeat(call1("eth_long")+",", 100), ",") + "]")
	refused := 0
	for range 1000 {
		ctx, r := withRequest(t.Context(), Request{ID: "test", IP: "192.0.2.1"})
		ctx.open(d)
		defer r.holding.Close()
		if ex := d.begin(ctx, TransportHTTP, r, body); ex.failed {
			refused++
			if ex.httpStatus() != http.StatusTooManyRequests {
				t.Fatalf("refused with status %d: %s", ex.httpStatus(), ex.refusals)
			}
		}
	}
	if refused < 500 {
		t.Errorf("of 1000 batches of a hundred calls each %d were refused where a client may hold 16 MB", refused)
	}
}

// TestALongTextWaitsForAPermit, and a short one does not.
func TestALongTextWaitsForAPermit(t *testing.T) {
	processors := capacity.NewPermits(1, 1)
	d := testDispatcher(t, testConfig(), Options{Processors: processors})
	permit := must.Get(processors.Enter(t.Context(), littleMemory().Open("8.8.8.8"), 1, false))(t)
	long := strings.Repeat(" ", longText) + call1("eth_chainId")
	answer := make(chan string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { answer <- exchangeOnce(ctx, d, long) }()
	if text := exchangeOnce(t.Context(), d, long[1000:]); !strings.Contains(text, "result") {
		t.Errorf("a text that is not long: %s", text)
	}
	select {
	case text := <-answer:
		t.Errorf("a long text did not wait: %s", text)
	default:
	}
	cancel()
	if text := <-answer; !strings.Contains(text, "error") {
		t.Errorf("a long text whose client has gone: %s", text)
	}
	permit.Leave()
	if text := exchangeOnce(t.Context(), d, long); !strings.Contains(text, "result") {
		t.Errorf("a long text with its permit: %s", text)
	}
}

// TestTheRoomOfABodyIsCountedBeforeItIsMade: however much of it has arrived.
func TestTheRoomOfABodyIsCountedBeforeItIsMade(t *testing.T) {
	memory := littleMemory()
	holding := memory.Open("192.0.2.1")
	body, err := readAll(strings.NewReader(strings.Repeat(" ", megabyte+1)), 4*megabyte, holding)
	if err != nil || len(body) != megabyte+1 {
		t.Fatalf("%d bytes, %v", len(body), err)
	}
	if held := holding.Held(); held != int64(cap(body)) || held < 2*megabyte {
		t.Errorf("a body in a room of %d bytes holds %d", cap(body), held)
	}
	holding.Close()
	for _, limit := range []int{1000, math.MaxInt} {
		holding := memory.Open("192.0.2.1")
		_, err := readAll(strings.NewReader(strings.Repeat(" ", 9*megabyte)), limit, holding)
		if exceeded := (*capacity.Exceeded)(nil); limit == 1000 && !errors.Is(err, errBodyTooLarge) || limit > 1000 && !errors.As(err, &exceeded) {
			t.Errorf("a body of 9 MB where %d bytes may be: %v", limit, err)
		}
		if held := holding.Held(); held > 8*megabyte {
			t.Errorf("%d bytes are held", held)
		}
		holding.Close()
	}
}
