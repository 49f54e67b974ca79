package limit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"unicode"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hedera"
)

// tier is a class of plans with one limit.
type tier string

const (
	tierBasic      tier = "BASIC"
	tierExtended   tier = "EXTENDED"
	tierPrivileged tier = "PRIVILEGED"
	tierOperator   tier = "OPERATOR" // bounded by the total alone
)

// limit is what a plan of a tier may spend per window.
func (c *Config) limit(t tier) hedera.Tinybar {
	switch t {
	case tierExtended:
		return c.Extended
	case tierPrivileged:
		return c.Privileged
	case tierOperator:
		return c.Total
	default:
		return c.Basic
	}
}

// plan is one entry of the plans file.
type plan struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Tier      tier     `json:"subscriptionTier"`
	Addresses []string `json:"evmAddresses"`
	IPs       []string `json:"ipAddresses"`
}

// plans are the entries of the plans file by who may use them.
type plans struct {
	byAddress map[common.Address]*plan
	byIP      map[netip.Addr]*plan
	tiers     map[string]tier // of every plan, by id
}

// find returns the plan of a sender, else that of its address, else nil.
func (p *plans) find(sender common.Address, ip netip.Addr) *plan {
	if found := p.byAddress[sender]; found != nil {
		return found
	}
	return p.byIP[ip]
}

// loadPlans reads plans from JSON text or from a file. Its errors name the setting.
func loadPlans(setting string) (*plans, error) {
	text := []byte(strings.TrimSpace(setting))
	if len(text) > 0 && text[0] != '[' {
		var err error
		if text, err = readPlans(setting); err != nil {
			return nil, fmt.Errorf("HBAR_SPENDING_PLANS_CONFIG: %w", err)
		}
	}
	p := &plans{byAddress: map[common.Address]*plan{}, byIP: map[netip.Addr]*plan{}, tiers: map[string]tier{}}
	if len(text) == 0 {
		return p, nil
	}
	var list []*plan
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("HBAR_SPENDING_PLANS_CONFIG: Failed to load pre-configured spending plans: %w", err)
	}
	for i, entry := range list {
		if err := p.add(entry); err != nil {
			return nil, fmt.Errorf("HBAR_SPENDING_PLANS_CONFIG: Failed to load pre-configured spending plans: entry %d: %w", i, err)
		}
	}
	return p, nil
}

// readPlans reads a file; a relative name is one in the working directory. None is no text
// and no error.
func readPlans(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read plans: %w", err)
	case len(strings.TrimSpace(string(text))) == 0:
		return nil, fmt.Errorf("%s is empty", name)
	}
	return text, nil
}

// add takes an entry. Who is in several plans has the last one.
func (p *plans) add(entry *plan) error {
	switch {
	case entry == nil:
		return errors.New("want an object")
	case entry.ID == "" || strings.ContainsFunc(entry.ID, unicode.IsControl):
		return errors.New("want an id of printable text")
	case entry.Name == "":
		return errors.New("want a name")
	case p.tiers[entry.ID] != "":
		return fmt.Errorf("the id %q is there twice", entry.ID)
	case len(entry.Addresses) == 0 && len(entry.IPs) == 0:
		return errors.New("want evmAddresses or ipAddresses")
	}
	switch entry.Tier {
	case tierBasic, tierExtended, tierPrivileged, tierOperator:
	default:
		return fmt.Errorf("subscriptionTier %q: want BASIC, EXTENDED, PRIVILEGED or OPERATOR", entry.Tier)
	}
	p.tiers[entry.ID] = entry.Tier
	for _, text := range entry.Addresses {
		if !common.IsHexAddress(text) {
			return fmt.Errorf("%q is not an EVM address", text)
		}
		p.byAddress[common.HexToAddress(text)] = entry
	}
	for _, text := range entry.IPs {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("%q is not an IP address", text)
		}
		p.byIP[ip.Unmap().WithZone("")] = entry
	}
	return nil
}
