package evm

// intrinsicGas is what a message costs before it runs. On this network access lists
// cost nothing, and there is no floor for call data.
func intrinsicGas(data []byte, creation bool) uint64 {
	const (
		message     = 21_000
		creationGas = 32_000
		wordGas     = 2 // of init code
		zeroGas     = 4
		byteGas     = 16
	)
	gas := uint64(message)
	for _, b := range data {
		if b == 0 {
			gas += zeroGas
		} else {
			gas += byteGas
		}
	}
	if creation {
		gas += creationGas + wordGas*((uint64(len(data))+31)/32)
	}
	return gas
}
