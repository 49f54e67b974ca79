package evm

import (
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
)

// selectors are those that contracts on the network call, with the names of the functions.
const tokenSelectors = `
0x927da105 allowance
0xdd62ed3e allowance
0x0a754de6 associate
0x49146bde associateToken
0x099794e8 dissociateToken
0x5c9217e0 dissociate
0x2e63879b associateTokens
0x78b63918 dissociateTokens
0x70a08231 balanceOf
0xacb9cff9 burnToken
0xd6910d06 burnToken
0x7812a04b createFungibleToken
0xc23baeb6 createFungibleToken
0x0fb65bf3 createFungibleToken
0x4c381ae7 createFungibleTokenWithCustomFees
0xb937581a createFungibleTokenWithCustomFees
0x2af0c59a createFungibleTokenWithCustomFees
0x9dc711e0 createNonFungibleToken
0x9c89bb35 createNonFungibleToken
0xea83f293 createNonFungibleToken
0x5bc7c0e6 createNonFungibleTokenWithCustomFees
0x45733969 createNonFungibleTokenWithCustomFees
0xabb54eb5 createNonFungibleTokenWithCustomFees
0x7cb8323a createFungibleToken
0x5ac3e67a createFungibleTokenWithCustomFees
0xad7f8f0b createNonFungibleToken
0xc5bc16bc createNonFungibleTokenWithCustomFees
0xae7611a0 getTokenCustomFees
0x313ce567 decimals
0xa7daa18d getTokenDefaultFreezeStatus
0x335e04c1 getTokenDefaultKycStatus
0xf069f712 deleteToken
0x5b8f8584 freezeToken
0x52f91387 unfreezeToken
0x3f28a19b getFungibleTokenInfo
0x098f2366 getApproved
0x081812fc getApproved
0x095ea7b3 approve
0xe1f21c67 approve
0x7336aaf0 approveNFT
0x8f8d7f99 grantTokenKyc
0xaf99c633 revokeTokenKyc
0xf49f40db isApprovedForAll
0xe985e9c5 isApprovedForAll
0x4d8fdd6d isAssociated
0x46de0fb1 isFrozen
0xf2c31ff4 isKyc
0x19f37361 isToken
0x278e0b88 mintToken
0xe0f4059a mintToken
0x06fdde03 name
0x287e1da8 getNonFungibleTokenInfo
0x6352211e ownerOf
0x7c41ad2c pauseToken
0x3b3bff0f unpauseToken
0x367605ca setApprovalForAll
0xa22cb465 setApprovalForAll
0x95d89b41 symbol
0xd614cdb8 getTokenExpiryInfo
0x1f69565f getTokenInfo
0x3c4dd32e getTokenKey
0x93272baf getTokenType
0xc87b56dd tokenURI
0x18160ddd totalSupply
0x2f348119 airdropTokens
0x012ebcaf cancelAirdrops
0xcef5b705 cancelAirdropFT
0xad4917cf cancelAirdropNFT
0x05961641 claimAirdrops
0xa83bc5b2 claimAirdropFT
0x63ada5d7 claimAirdropNFT
0xebd595e0 rejectTokens
0x76c6b391 rejectTokenFT
0xa869c78a rejectTokenNFTs
0x189a554c cryptoTransfer
0x0e71804f cryptoTransfer
0x82bba493 transferTokens
0xeca36917 transferToken
0x2c4ba191 transferNFTs
0x5cfc9011 transferNFT
0x15dacbea transferFrom
0x9b23d3d9 transferFromNFT
0xa9059cbb transfer
0x23b872dd transferFrom
0x593d6e82 updateTokenExpiryInfo
0xd27be6cd updateTokenExpiryInfo
0x6fc3cbaf updateTokenKeys
0x2cccc36f updateTokenInfo
0x18370d34 updateTokenInfo
0x7d305cfa updateTokenInfo
0x0fcaca1f updateNFTsMetadata
0x54c832a5 updateTokenInfo
0xd5f60c47 updateFungibleTokenCustomFees
0x30727a29 updateNonFungibleTokenCustomFees
0x9790686d wipeTokenAccount
0xefef57f9 wipeTokenAccount
0xf7f38e26 wipeTokenAccountNFT
`

// Every function answers to the selector that it has on the network. Of the token service, those with metadata in them
// came later, and HRC-719 and the redirect are listed elsewhere.
func TestSelectors(t *testing.T) {
	for _, service := range []struct {
		functions *serviceFunctions
		selectors string
		unlisted  int
	}{
		{NewTokenFunctions(), tokenSelectors, 8}, {newAccountFunctions(), accountSelectors, 0}, {newScheduleFunctions(), scheduleSelectors, 0},
	} {
		listed := 0
		for line := range strings.Lines(strings.TrimSpace(service.selectors)) {
			selector, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			key := [4]byte(common.FromHex(selector))
			f := service.functions.Direct()[key]
			if f == nil {
				f = service.functions.facade()[key]
			}
			if f == nil || !strings.HasPrefix(f.signature, name+"(") {
				t.Errorf("%s %s: %+v", selector, name, f)
			}
			listed++
		}
		if got := len(service.functions.Direct()) + len(service.functions.facade()); got < listed || got > listed+service.unlisted {
			t.Errorf("%s: %d functions, %d are listed", service.functions.name, got, listed)
		}
	}
}

const accountSelectors = `
0xdea3d081 getEvmAddressAlias
0xbbee989e hbarAllowance
0xfec46666 hbarAllowance
0x86aff07c hbarApprove
0xa0918464 hbarApprove
0xbbf12d2e getHederaAccountNumAlias
0xb2526367 isAuthorized
0xb2a31da4 isAuthorizedRaw
0x308ef301 isValidAlias
0xf5677e99 setUnlimitedAutomaticAssociations
`

const scheduleSelectors = `
0x72d42394 deleteSchedule
0xc61dea85 deleteSchedule
0xdfb4a999 hasScheduleCapacity
0xda2d5f8f getScheduledCreateFungibleTokenInfo
0xd68c902c getScheduledCreateNonFungibleTokenInfo
0xca829811 scheduleNative
0x6f5bfde8 scheduleCall
0xe6599c18 scheduleCallWithPayer
0x105772b2 executeCallOnPayerSignature
0x358eeb03 signSchedule
0x06d15889 signSchedule
0xf0637961 authorizeSchedule
`
