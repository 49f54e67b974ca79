package mirror

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkDecodeLogs reads a page of logs of five blocks, with twenty transactions and
// logs each.
func BenchmarkDecodeLogs(b *testing.B) {
	body := []byte(manyLogs())
	l := list[Log]{member: "logs"}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var p page[Log]
		if err := l.readPage(body, &p); err != nil || len(p.items) != 100 {
			b.Fatal(len(p.items), err)
		}
	}
}

func manyLogs() string {
	items := make([]string, 100)
	for i := range items {
		items[i] = fmt.Sprintf(`{"address":"0x%040x","bloom":"0x%0512x","contract_id":"0.0.%d","data":"0x%0136x","index":%d,"topics":["0x%064x","0x%064x"],`+
			`"block_hash":"0x%096x","block_number":%d,"root_contract_id":"0.0.%[3]d","timestamp":"%d.%09d","transaction_hash":"0x%064x","transaction_index":%[5]d}`,
			i%5+1000, i, i%5+1000, i+2000, i%20, 77, i+3000, i/20+4000, i/20+90_000_000, i/20*2+1_767_225_600, 1000*i, i+5000)
	}
	return `{"logs":[` + strings.Join(items, ",") + `],"links":{"next":null}}`
}
