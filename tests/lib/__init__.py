# SPDX-License-Identifier: BSD-3-Clause
"""What tests/run and the test scripts share."""
